"""What went wrong during a sale, or was out of the ordinary, in order of time."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, select

from holdfast.domain.sale.sale import Sale
from holdfast.ledger.tables.incarnations import incarnations
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import is_to_source, orders
from holdfast.ledger.tables.stock import events, parked_entries

# Enough for a page. How many there are of a kind is in its last line.
SHOWN_MAX = 50


class Incident(Struct, frozen=True):
    at: int
    kind: str
    what: str


def incidents_of(connection: Connection, sale: Sale, names: Sequence[str]) -> list[Incident]:
    found = [
        *_changes(connection, sale),
        *_drifts(connection, sale, names),
        *_parked(connection, settlements, "settlement", settlements.c.sale_id == sale.sale_id),
        *_parked(connection, refunds, "refund", refunds.c.payment_key.in_(_payments_of(sale))),
        *_parked(connection, parked_entries, "journal entry", parked_entries.c.sku_id.in_(names)),
        *_shortages(connection, sale),
        *_cuts(connection, sale),
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


def _change(at: int, facts: str | None) -> Iterator[Incident]:
    [values] = msgspec.json.decode(facts)["sales"] if facts else [{}]
    if "paused" in values:
        what = "paused" if values["paused"] else "resumed"
        yield Incident(at, what, f"An operator {what} the sale.")
    changed = sorted(set(values) - _BY_ITSELF)
    if changed:
        yield Incident(at, "changed", f"An operator changed {', '.join(changed)}.")


# What changes as a sale goes on, without anyone changing its rules.
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
    """The ledger was restored to an earlier moment, and somebody decided to continue with it."""
    wanted = select(incarnations.c.began_at).where(
        incarnations.c.number > 1, incarnations.c.began_at >= sale.created_at
    )
    for row in connection.execute(wanted.order_by(incarnations.c.number).limit(SHOWN_MAX)):
        yield Incident(row.began_at, "ledger went back", "The ledger lacked events that had been acknowledged.")
