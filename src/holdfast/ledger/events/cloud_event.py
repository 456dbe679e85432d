"""Encodes an event as CloudEvents 1.0 in JSON.

The data describes the state when the event happened, as far as the event recorded it: the `reservation.created` event
of a reservation that has since been confirmed still says `active`. The counts of a pool are those at encoding time.
"""

from typing import Any

import msgspec
from sqlalchemy import Row

from holdfast.domain.sale.sale import order_id_of, order_number_of
from holdfast.ledger.events.declined import declined_payment
from holdfast.ledger.events.event_facts import Facts
from holdfast.runtime.times import rfc3339

SOURCE = "/holdfast"
CONTENT_TYPE = "application/cloudevents+json"

_ORDER_STATUS = {"order.pending": "pending", "order.confirmed": "confirmed", "order.fulfilled": "fulfilled"}
_STATUS = {"created": "active", "extended": "active", "reopened": "active"}


def encode_event(event: Row[Any], facts: Facts, number: str) -> tuple[str, str]:
    """The ordering key (deliveries with the same key are sent one after the other), and the body."""
    kind, _, what = event.type.partition(".")
    sku_id = facts.sku_of(event)
    match kind:
        case "reservation":
            subject, data = event.reservation_id, _reservation(event, what, sku_id, facts)
        case "payment":
            subject, data = event.reservation_id, _declined(event, sku_id)
        case "order":
            order_id = order_id_of(event.reservation_id) if event.reservation_id else event.subject
            data = _order(event, order_id, facts)
            subject = data["order_id"] or event.subject
        case "sale":
            subject, data = event.subject, _sale(event.subject, sku_id, facts)
        case _:
            subject, data = sku_id, _pool(event, sku_id, facts)
    traceparent = facts.traces.get(event.reservation_id)
    return event.reservation_id or subject, encode(
        f"evt_{number}", event.type, subject, event.at, data, traceparent=traceparent
    )


def encode(
    event_id: str, event_type: str, subject: str, at: int, data: dict[str, Any], *, traceparent: str | None = None
) -> str:
    """`traceparent` is the extension of CloudEvents for distributed tracing."""
    envelope = {
        "specversion": "1.0",
        "id": event_id,
        "source": SOURCE,
        "type": event_type,
        "subject": subject,
        "time": rfc3339(at),
        "datacontenttype": "application/json",
        "data": data,
    }
    if traceparent is not None:
        envelope["traceparent"] = traceparent
    return msgspec.json.encode(envelope).decode()


def _reservation(event: Row[Any], what: str, sku_id: str, facts: Facts) -> dict[str, Any]:
    found, paid = facts.reservations.get(event.reservation_id), facts.payments.get(event.reservation_id)
    why = {"failure_reason": None if paid is None else paid.reason} if what == "failed" else {}
    return why | {
        "reservation_id": event.reservation_id,
        "sku_id": sku_id,
        "sale_id": facts.sale_of(event.sku_id),
        "owner_id": None if found is None else found.owner_id,
        "quantity": event.quantity,
        "status": _STATUS.get(what, what),
        "expires_at": None if event.expires_at is None else rfc3339(event.expires_at),
    }


def _declined(event: Row[Any], sku_id: str) -> dict[str, Any]:
    payment = declined_payment(event.facts)
    assert payment is not None
    expires_at = None if event.expires_at is None else rfc3339(event.expires_at)
    names = ("sale_id", "buyer_id", "attempt", "amount", "currency", "reason")
    about = {"reservation_id": event.reservation_id, "sku_id": sku_id, "quantity": event.quantity}
    return about | {"expires_at": expires_at} | {name: getattr(payment, name) for name in names}


def _order(event: Row[Any], order_id: str, facts: Facts) -> dict[str, Any]:
    order, refund = facts.orders.get(order_id), facts.refunds.get(event.subject)
    about = {} if refund is None else {"refund": _refund(refund)}
    if order is None:
        # A payment that came too late for its reservation and is refunded: no order ever existed.
        is_without = refund is not None and refund.order_id is None
        return about | {"order_id": None if is_without else order_id, "reservation_id": event.reservation_id}
    return about | {
        "order_id": order.order_id,
        "reservation_id": order.reservation_id,
        "sale_id": order.sale_id,
        "buyer_id": order.buyer_id,
        "quantity": order.quantity,
        "amount": order.amount,
        "currency": order.currency,
        "number": order_number_of(order.reservation_id),
        "unit_price": order.amount // order.quantity,
        "status": _ORDER_STATUS.get(event.type, order.status),
        "refunded_amount": 0 if event.type == "order.confirmed" else order.refunded_amount,
        "tracking": order.tracking,
        "created_at": rfc3339(order.created_at),
    }


def _refund(refund: Row[Any]) -> dict[str, Any]:
    names = ("refund_id", "amount", "currency", "restock_units", "cause")
    return {name: refund._mapping[name] for name in names}  # noqa: SLF001 - the documented way to columns by name


def _sale(sale_id: str, sku_id: str, facts: Facts) -> dict[str, Any]:
    sale = facts.sales.get(sale_id)
    if sale is None:
        return {"sale_id": sale_id, "sku_id": sku_id}
    return {
        "sale_id": sale_id,
        "sku_id": sku_id,
        "name": sale.name,
        "price": {"amount": sale.price_amount, "currency": sale.currency},
        "starts_at": rfc3339(sale.starts_at),
        "ends_at": None if sale.ends_at is None else rfc3339(sale.ends_at),
    }


def _pool(event: Row[Any], sku_id: str, facts: Facts) -> dict[str, Any]:
    pool = facts.pools.get(event.sku_id)
    counts = pool_counts(0, 0, 0) if pool is None else pool_counts(pool.total, pool.held, pool.sold)
    data = {"sku_id": sku_id, "sale_id": facts.sale_of(event.sku_id), **counts}
    if event.type == "pool.drift" and event.subject is not None:
        # More units of the sale were sold than can be delivered. 0: the shortfall is resolved.
        data |= {"sale_id": event.subject, "shortfall_units": event.quantity}
    return data


def pool_counts(total: int, held: int, sold: int) -> dict[str, int]:
    return {"total_units": total, "held": held, "sold": sold, "available": total - held - sold}
