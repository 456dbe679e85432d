"""The rows that result from the events."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Table

from holdfast.ledger.room.queries import CHANGED_COLUMNS
from holdfast.ledger.room.rooms import CHANGED
from holdfast.ledger.sales.pruning import PRUNED as PLACES_PRUNED
from holdfast.ledger.sales.pruning import PrunedPlaces
from holdfast.ledger.stock.pruning import PRUNED
from holdfast.ledger.tables.money import payments, refunds, settlements, wallet_accounts, wallet_entries
from holdfast.ledger.tables.room import places, rooms
from holdfast.ledger.tables.sales import drops, orders, restocks, sales
from holdfast.ledger.tables.stock import idempotency, pools, reservations

Key = tuple[Any, ...]
Values = dict[str, Any]

REPLAYED: tuple[Table, ...] = (
    reservations,
    idempotency,
    pools,
    orders,
    settlements,
    payments,
    refunds,
    wallet_entries,
    wallet_accounts,
    sales,
    drops,
    restocks,
    rooms,
    places,
)
_BY_NAME = {table.name: table for table in REPLAYED}
_BUYER = "buyer:"
_DECIDED_PAYMENT = ("captured", "declined", "voided")
# Not decided by the gate.
_BESIDES_STOCK = ("pool.counted_anew", "pool.drift", "pool.in_sale")
# Stored beside the columns of a row: the number of the last event that wrote to it.
LAST_EVENT = "last event"
_NOT_CALLED = dict.fromkeys(CHANGED_COLUMNS[1:])


# Compared with the sums over events and reservations (`stock.py`).
SUMMED = {pools.c.total, pools.c.held, pools.c.sold, pools.c.active_reservations}


def is_in_progress(table: Table, row: Row[Any], expected: Values | None) -> bool:
    """Whether both the row and the events leave it undecided."""
    said = {} if expected is None else expected.get("state")
    if table is payments:
        return row.state not in _DECIDED_PAYMENT and said not in _DECIDED_PAYMENT
    if table is settlements:
        return row.state != "done" and said != "done"
    if table is refunds:
        return row.state != "done" and said != "done" and expected is not None
    return table is restocks and not row.is_done and expected is None


class ReplayedRows:
    def __init__(self, is_mine: Callable[[Key], bool]) -> None:
        """`is_mine`: selects the primary keys."""
        self._is_mine = is_mine
        self._seq = 0
        self._rows: dict[str, dict[Key, Values]] = defaultdict(dict)

    def of(self, table: Table) -> dict[Key, Values]:
        return self._rows[table.name]

    def apply(self, event: Row[Any], facts: Mapping[str, Any]) -> None:
        self._seq = event.seq
        kind, _, what = event.type.partition(".")
        if kind == "reservation":
            self._move(event, what, facts)
        elif event.type == CHANGED:
            self._change_places(event, facts)
        elif event.type == PLACES_PRUNED:
            self._prune_places(event)
        for name, rows in facts.items():
            if name in _BY_NAME:
                self._write(_BY_NAME[name], rows)
        for name, rows in facts.get("removed", {}).items():
            for row in rows:
                self._rows[name].pop(_key_of(_BY_NAME[name], row), None)
        if kind in ("reservation", "pool") and event.type not in _BESIDES_STOCK:
            self._decide(event, facts)
        self._count(facts.get("wallet_entries", ()))

    def _update(self, table: Table, key: Key, values: Mapping[str, Any]) -> None:
        if self._is_mine(key):
            row = self._rows[table.name].setdefault(key, {})
            if values:
                row.update(values)
                row[LAST_EVENT] = self._seq

    def _write(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self._update(table, _key_of(table, row), row)

    # --- stock

    def _move(self, event: Row[Any], what: str, facts: Mapping[str, Any]) -> None:
        status = "active" if what in ("created", "extended", "reopened") else what
        key = (event.reservation_id,)
        confirmed_at = event.at if what == "confirmed" else None
        values: Values = {"status": status, "expires_at": event.expires_at, "confirmed_at": confirmed_at}
        if what == "created":
            values["attempts"] = facts.get("attempts", 0)
        elif what == "settling":
            known = self._rows[reservations.name].get(key, {})
            values["attempts"] = facts.get("attempts", known.get("attempts", 0) + 1)
        if what == "created" and "owner_id" in facts:
            values |= self._create(event, facts)
        self._update(reservations, key, values)
        if "sale_id" in facts:
            self._settle(event, facts)

    def _create(self, event: Row[Any], facts: Mapping[str, Any]) -> Values:
        same: Values = {
            "owner_id": facts["owner_id"],
            "sku_id": event.sku_id,
            "quantity": event.quantity,
            "created_at": facts.get("created_at", event.at),
        }
        if "key" in facts:
            key = (event.sku_id, facts["owner_id"], facts["key"])
            about = {"reservation_id": event.reservation_id, "expires_at": event.expires_at}
            self._update(idempotency, key, same | about | {"fingerprint": facts["fingerprint"]})
        return same

    def _settle(self, event: Row[Any], facts: Mapping[str, Any]) -> None:
        made = self._rows[reservations.name].get((event.reservation_id,), {})
        begun = {
            "sale_id": facts["sale_id"],
            "sku_id": event.sku_id,
            "quantity": event.quantity,
            "created_at": facts.get("settling_at", event.at),
        }
        if "state" in self._rows[settlements.name].get((event.reservation_id,), {}):
            begun |= {"state": "waiting", "ending": None}
        buyer = {"buyer_id": made["owner_id"]} if "owner_id" in made else {}
        self._update(settlements, (event.reservation_id,), begun | buyer)

    def _decide(self, event: Row[Any], facts: Mapping[str, Any]) -> None:
        """Every batch updates its pool; some also change the rules."""
        values: Values = {}
        if event.type == PRUNED:
            values["pruned_seq"] = event.seq
        if "pools" in facts:
            [pool], before = facts["pools"], facts.get("before")
            if before is None:
                values |= dict.fromkeys(("sale_id", "limit_lowered_at", "pruned_seq", "counted_from"))
            if before is not None and _is_lowered(before["per_owner_limit"], pool["per_owner_limit"]):
                values["limit_lowered_at"] = event.at
        self._update(pools, (event.sku_id,), values)

    # --- rooms

    def _change_places(self, event: Row[Any], facts: Mapping[str, Any]) -> None:
        sale_id, (buyers, tickets, *stamps) = event.subject, facts.get("joined", ((), ()))
        first, unknown = facts["rooms"][0].get("joined", 0) - len(buyers), [None] * len(buyers)
        # Events of earlier releases have no stamps.
        arrived, staged = stamps[0] if stamps else unknown, facts.get("staged", unknown)
        rows = zip(buyers, tickets, arrived, staged, strict=True)
        for arrival, (buyer_id, ticket_id, arrived_at, staged_at) in enumerate(rows, first):
            values = {"buyer_id": buyer_id, "ticket_id": ticket_id, "joined_at": event.at}
            values |= {"arrived_at": arrived_at, "staged_at": staged_at}
            self._update(places, (sale_id, arrival), _NOT_CALLED | values)
        for arrival, *values in facts.get("changed", ()):
            self._update(places, (sale_id, arrival), dict(zip(CHANGED_COLUMNS[1:], values, strict=True)))
        for arrival, left_place in facts.get("left", ()):
            self._update(places, (sale_id, arrival), {"left_place": left_place})

    def _prune_places(self, event: Row[Any]) -> None:
        pruned = PrunedPlaces.parse(event.subject)
        if pruned is None:
            return  # Another check reports it.
        upto = pruned.first + pruned.count
        for arrival in range(pruned.first, upto):
            self._rows[places.name].pop((pruned.sale_id, arrival), None)
        self._update(rooms, (pruned.sale_id,), {"pruned": upto})

    # --- wallets

    def _count(self, entries: Sequence[Mapping[str, Any]]) -> None:
        for entry in entries:
            buyer_id = entry["account"].removeprefix(_BUYER)
            if buyer_id != entry["account"]:
                values = {"balance": entry["balance"], "updated_at": entry["at"]}
                self._update(wallet_accounts, (buyer_id, entry["currency"]), values)


def _key_of(table: Table, row: Mapping[str, Any]) -> Key:
    return tuple(row[c.name] for c in table.primary_key)


def _is_lowered(before: int | None, after: int | None) -> bool:
    return after is not None and (before is None or after < before)
