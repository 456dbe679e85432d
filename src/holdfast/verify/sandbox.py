"""Compares the ledger with the independent records of the payment sandbox.

The sandbox is read before the ledger, so a payment that moves in between is in progress for the ledger.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import msgspec
from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.domain.sale.sale import PaymentKind
from holdfast.errors import Unavailable
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import is_sold, orders
from holdfast.verify.check import EXAMPLES_MAX, Finding, Level
from holdfast.verify.in_progress import IN_PROGRESS

PAGE = 1_000
TIMEOUT_S = 30.0


class Charged(Struct, frozen=True):
    buyer_id: str
    reservation_id: str
    sale_id: str
    currency: str
    amount: int


class Refunded(Struct, frozen=True):
    key: str
    amount: int


class Entry(Struct, frozen=True):
    """The relevant part of the sandbox's record of one payment."""

    key: str
    state: str
    captured: int = 0
    captures: int = 0
    refunded: int = 0
    reference: str | None = None
    charge: Charged | None = None
    refunds: tuple[Refunded, ...] = ()


class _Page(Struct, frozen=True):
    payments: list[Entry]
    next: int | None = None


class _Paid(Struct, frozen=True):
    """The ledger's record of one payment by the sandbox."""

    key: str
    amount: int
    is_ordered: bool
    is_in_progress: bool
    refunded: int
    refunding: int
    reference: str | None
    charge: Charged


async def read_books(url: str) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    after: int | None = 0
    try:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            while after is not None:
                answer = await client.get("/books", params={"after": after, "limit": PAGE})
                answer.raise_for_status()
                page = msgspec.json.decode(answer.content, type=_Page)
                entries |= {entry.key: entry for entry in page.payments}
                after = page.next
    except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError) as exc:
        raise Unavailable(f"the records of the sandbox at {url} cannot be read: {exc}") from exc
    return entries


def compare(connection: Connection, books: dict[str, Entry]) -> list[Finding]:
    paid = {one.key: one for one in _read_ledger(connection)}
    ordered = [one for one in paid.values() if one.is_ordered]
    charged = [entry for entry in books.values() if entry.captured]
    known = [one for one in paid.values() if one.key in books]
    return [
        _finding(
            "sandbox_charged_once",
            "The sandbox charged every order exactly once, with its amount.",
            len(ordered),
            (_beside(one, books.get(one.key)) for one in ordered if not _is_charged_once(one, books.get(one.key))),
        ),
        _finding(
            "sandbox_charges_end",
            "Every charge in the sandbox has an order here, was refunded there, or is in progress.",
            len(charged),
            (msgspec.to_builtins(entry) for entry in charged if not _ends(entry, paid.get(entry.key))),
        ),
        _finding(
            "sandbox_refunds_agree",
            "The sandbox's refunds match the ledger's.",
            len(known),
            (_beside(one, books[one.key]) for one in known if not _refunds_agree(one, books[one.key])),
        ),
        _finding(
            "sandbox_payments_agree",
            "The sandbox's payments are of the same buyers, amounts, currencies and references as the ledger's.",
            len(known),
            (_beside(one, books[one.key]) for one in known if not _is_same(one, books[one.key])),
        ),
        _finding(
            "sandbox_refunds_known",
            "Every refund of the sandbox is one of the ledger's, over the same amount.",
            sum(len(entry.refunds) for entry in books.values()),
            _unknown_refunds(connection, books),
        ),
    ]


def _is_charged_once(one: _Paid, entry: Entry | None) -> bool:
    if one.amount == 0:
        return entry is None or entry.captured == 0
    return entry is not None and entry.captures == 1 and entry.captured == one.amount


def _ends(entry: Entry, one: _Paid | None) -> bool:
    if entry.refunded >= entry.captured:
        return True
    return one is not None and (one.is_ordered or one.is_in_progress or one.refunding > 0)


def _refunds_agree(one: _Paid, entry: Entry) -> bool:
    return one.refunded <= entry.refunded <= one.refunded + one.refunding


def _is_same(one: _Paid, entry: Entry) -> bool:
    is_reference = one.is_in_progress or one.reference == entry.reference
    # A replacement may have taken over the money of another reservation.
    return entry.charge is None or (is_reference and _money(one.charge) == _money(entry.charge))


def _money(charge: Charged) -> tuple[object, ...]:
    return charge.buyer_id, charge.sale_id, charge.amount, charge.currency


def _unknown_refunds(connection: Connection, books: dict[str, Entry]) -> Iterator[dict[str, Any]]:
    known = {row.refund_id: row.amount for row in connection.execute(select(refunds.c.refund_id, refunds.c.amount))}
    for entry in books.values():
        for refund in entry.refunds:
            if known.get(refund.key) != refund.amount:
                yield {
                    "key": entry.key,
                    "refund": refund.key,
                    "amount": refund.amount,
                    "in_ledger": known.get(refund.key),
                }


def _beside(one: _Paid, entry: Entry | None) -> dict[str, Any]:
    there = {"captures": 0, "captured": 0, "refunded": 0} if entry is None else msgspec.to_builtins(entry)
    return {"key": one.key, "amount": one.amount, "refunded_by_ledger": one.refunded} | there


def _finding(name: str, means: str, looked_at: int, found: Iterable[dict[str, Any]]) -> Finding:
    examples = list(found)
    return Finding(name, means, Level.FAILURE, looked_at, len(examples), examples[:EXAMPLES_MAX])


def _read_ledger(connection: Connection) -> list[_Paid]:
    amount = func.coalesce(func.sum(refunds.c.amount), 0)
    of_payment = select(amount).where(refunds.c.payment_key == payments.c.payment_key)
    query = (
        select(
            payments.c.payment_key,
            payments.c.amount,
            orders.c.order_id.is_not(None) & payments.c.state.not_in(("declined", "voided")),
            settlements.c.state.in_(IN_PROGRESS),
            of_payment.where(refunds.c.state == "done").scalar_subquery(),
            of_payment.where(refunds.c.state.in_(IN_PROGRESS)).scalar_subquery(),
            payments.c.reference,
            *(payments.c[name] for name in Charged.__struct_fields__),
        )
        .outerjoin(
            orders,
            (orders.c.reservation_id == payments.c.reservation_id)
            & (orders.c.payment == PaymentKind.SANDBOX)
            & is_sold,
        )
        .outerjoin(settlements, settlements.c.reservation_id == payments.c.reservation_id)
        .where(payments.c.provider == PaymentKind.SANDBOX)
    )
    return [
        _Paid(row[0], row[1], bool(row[2]), bool(row[3]), int(row[4]), int(row[5]), row[6], Charged(*row[7:]))
        for row in connection.execute(query)
    ]
