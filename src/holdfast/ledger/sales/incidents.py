"""Incidents and unusual events of a sale, in order of time."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, func, select

from holdfast.domain.sale.sale import Sale
from holdfast.ledger.events.outages import Outage, outages_between
from holdfast.ledger.tables.incarnations import incarnations
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import is_to_source, orders
from holdfast.ledger.tables.stock import events, parked_entries

# Enough for a page. The last line of a kind has the total number.
SHOWN_MAX = 50


class Incident(Struct, frozen=True):
    at: int
    kind: str
    what: str
    # The duration, if it lasted.
    ended_at: int | None = None


def incidents_of(connection: Connection, sale: Sale, names: Sequence[str], now: int) -> list[Incident]:
    found = [
        *_changes(connection, sale),
        *_closures(connection, sale),
        *_drifts(connection, sale, names),
        *_parked(connection, settlements, "settlement", settlements.c.sale_id == sale.sale_id),
        *_parked(connection, refunds, "refund", refunds.c.payment_key.in_(_payments_of(sale))),
        *_parked(connection, parked_entries, "journal entry", parked_entries.c.sku_id.in_(names)),
        *_shortages(connection, sale),
        *_cuts(connection, sale),
        *_outages(connection, sale, now),
    ]
    return sorted(found, key=lambda incident: incident.at)


def _payments_of(sale: Sale) -> Any:
    return select(payments.c.payment_key).where(payments.c.sale_id == sale.sale_id)


def _changes(connection: Connection, sale: Sale) -> Iterator[Incident]:
    """Pauses, changed stock, and changes of the rules while people were buying."""
    wanted = select(events.c.at, events.c.type, events.c.quantity, events.c.facts).where(
        events.c.sku_id == sale.sku_id,
        events.c.type.in_(["sale.changed", "sale.restocked"]),
        events.c.subject == sale.sale_id,
        events.c.at > (sale.opened_at or sale.starts_at),
    )
    for row in connection.execute(wanted.order_by(events.c.seq).limit(SHOWN_MAX)):
        if row.type == "sale.restocked":
            yield Incident(row.at, "stock changed", "An operator changed the stock.")
        else:
            yield from _change(row.at, row.facts)


def _closures(connection: Connection, sale: Sale) -> Iterator[Incident]:
    """Gate and ledger differed, so sales stopped until they agreed."""
    wanted = select(events.c.at, events.c.facts).where(
        events.c.sku_id == sale.sku_id,
        events.c.type == "sale.changed",
        events.c.subject == sale.sale_id,
        events.c.facts.contains('"problem"'),
    )
    problem, began_at = None, 0
    for row in connection.execute(wanted.order_by(events.c.seq).limit(SHOWN_MAX)):
        [values] = msgspec.json.decode(row.facts)["sales"]
        if "problem" not in values:
            continue  # It is a value: of a name, say.
        is_before = row.at <= (sale.opened_at or sale.starts_at)
        if problem is not None and values["problem"] != problem and not is_before:
            yield _closure(began_at, problem, row.at)
        problem, began_at = values["problem"], row.at
    if problem is not None:
        yield _closure(began_at, problem, None)


def _closure(at: int, problem: str, ended_at: int | None) -> Incident:
    what = f"The pool was closed: {problem}. Buyers were answered 503 and tried again."
    return Incident(at, "closed", what, ended_at)


def _change(at: int, facts: str | None) -> Iterator[Incident]:
    [values] = msgspec.json.decode(facts)["sales"] if facts else [{}]
    if "paused" in values:
        what = "paused" if values["paused"] else "resumed"
        yield Incident(at, what, f"An operator {what} the sale.")
    changed = sorted(set(values) - _BY_ITSELF)
    if changed:
        yield Incident(at, "changed", f"An operator changed {', '.join(changed)}.")


# Fields that change while a sale runs, without a change of its rules.
_BY_ITSELF = frozenset({"sale_id", "updated_at", "paused", "opened_at", "closed_at", "state", "problem"})


def _drifts(connection: Connection, sale: Sale, names: Sequence[str]) -> Iterator[Incident]:
    wanted = select(events.c.at, events.c.sku_id).where(
        events.c.sku_id.in_(names), events.c.type == "pool.drift", events.c.at >= sale.created_at
    )
    for row in connection.execute(wanted.order_by(events.c.seq).limit(SHOWN_MAX)):
        yield Incident(row.at, "drift", f"Gate and ledger disagreed about {row.sku_id}.")


def _parked(connection: Connection, table: Table, name: str, theirs: ColumnElement[bool]) -> Iterator[Incident]:
    wanted = select(table.c.created_at, table.c.state, table.c.reason).where(
        theirs, table.c.state.in_(["parked", "dropped"])
    )
    for row in connection.execute(wanted.order_by(table.c.created_at).limit(SHOWN_MAX)):
        yield Incident(row.created_at, row.state, f"A {name} needed a person: {row.reason or 'no reason given'}.")


def _shortages(connection: Connection, sale: Sale) -> Iterator[Incident]:
    wanted = select(orders.c.created_at, orders.c.order_id, orders.c.units_to_source).where(
        orders.c.sale_id == sale.sale_id, is_to_source
    )
    for row in connection.execute(wanted.order_by(orders.c.order_id).limit(SHOWN_MAX)):
        what = f"Order {row.order_id} has {row.units_to_source:,} units that are missing from the stock."
        yield Incident(row.created_at, "oversold", what)


def _cuts(connection: Connection, sale: Sale) -> Iterator[Incident]:
    """The ledger was restored to an earlier moment, and an operator decided to continue with it."""
    wanted = select(incarnations.c.began_at).where(
        incarnations.c.number > 1, incarnations.c.began_at >= sale.created_at
    )
    for row in connection.execute(wanted.order_by(incarnations.c.number).limit(SHOWN_MAX)):
        yield Incident(row.began_at, "ledger went back", "The ledger lacked events that had been acknowledged.")


def _outages(connection: Connection, sale: Sale, now: int) -> Iterator[Incident]:
    """Outages while the sale ran, or afterwards until its payments were settled."""
    until = now if sale.closed_at is None else max(sale.closed_at, _last_payment(connection, sale))
    for one in outages_between(connection, sale.opened_at or sale.starts_at, until)[:SHOWN_MAX]:
        yield Incident(one.began_at, "outage", _seen_by_buyers(connection, sale, one), one.last_at)


def _last_payment(connection: Connection, sale: Sale) -> int:
    last = select(func.max(payments.c.updated_at)).where(payments.c.sale_id == sale.sale_id)
    return connection.execute(last).scalar_one() or 0


def _seen_by_buyers(connection: Connection, sale: Sale, outage: Outage) -> str:
    if outage.subject.startswith(_PROVIDER):
        waited = _waiting_payments(connection, sale, outage)
        return (
            f"The payment provider {outage.subject.removeprefix(_PROVIDER)} did not answer. "
            f"Nobody lost a unit: buyers saw their payment as pending until it did ({waited:,} payments waited)."
        )
    if outage.refused:
        return f"{outage.refused:,} requests were refused under load: buyers were answered 503 and tried again."
    if outage.subject == _BACKGROUND:
        return f"Background work stood still ({outage.reason}): payments, refunds or the line did not move."
    if outage.subject == _GROWTH:
        return f"The write-ahead log grew too large ({outage.reason}). Buyers saw nothing of it."
    if outage.subject == _POSTGRES:
        return (
            f"PostgreSQL did not work ({outage.reason}): buyers were answered 503 and tried again. "
            "In Redis mode buyers could reserve meanwhile, but not join a line or pay."
        )
    return f"{outage.subject} did not work ({outage.reason}): buyers were answered 503 and tried again."


_PROVIDER, _BACKGROUND, _GROWTH, _POSTGRES = "payment_", "background", "store_growth", "postgresql"


def _waiting_payments(connection: Connection, sale: Sale, outage: Outage) -> int:
    """The payments that were in progress then."""
    wanted = select(func.count()).where(
        payments.c.sale_id == sale.sale_id,
        payments.c.created_at <= outage.last_at,
        payments.c.updated_at >= outage.began_at,
        payments.c.provider == outage.subject.removeprefix(_PROVIDER),
    )
    return int(connection.execute(wanted).scalar_one())
