"""Which SKUs are split into shards, and how many units they have in all.

A SKU's row is written once, before its pool or its shards are made, so that of two who create it differently one finds
the choice of the other. Units come from outside as transfers from the SKU itself to its shards, and leave as transfers
to it; both, and the new total, in one transaction under the lock of the row. So a total that was set is kept whatever
dies next, and the shards get their units as they get those of one another.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from sqlalchemy import Connection, exists, literal, select, union_all, update
from sqlalchemy.dialects.postgresql import insert

from holdfast.domain.shards import shard_names, spread, whole_of
from holdfast.domain.state import Transfer
from holdfast.ledger.tables import is_on_its_way, pools, splits, transfers
from holdfast.ledger.transfers import counters_of, finish, insert_given, waiting_for

# From the total there is to the total there shall be.
Target = Callable[[int], int]


class Sums(Struct):
    """What the ledger says at one moment of a SKU that is split: its total, its shards, and what is on its way."""

    total: int = 0
    in_shards: int = 0
    on_its_way: int = 0

    @property
    def adds_up(self) -> bool:
        return self.total == self.in_shards + self.on_its_way


def shards_of(connection: Connection, sku_id: str) -> int:
    """1 for a pool that is whole, 0 if there is none."""
    found: int | None = connection.execute(select(splits.c.shards).where(splits.c.sku_id == sku_id)).scalar()
    if found is not None:
        return found
    return int(connection.execute(select(exists().where(pools.c.sku_id == sku_id))).scalar_one())


def totals(connection: Connection, sku_ids: Sequence[str] | None = None) -> dict[str, int]:
    """Of the SKUs among these that are split."""
    query = select(splits.c.sku_id, splits.c.total).where(splits.c.shards > 1)
    if sku_ids is not None:
        query = query.where(splits.c.sku_id.in_(sku_ids))
    return {row.sku_id: row.total for row in connection.execute(query)}


def names_of(connection: Connection, sku_id: str) -> list[str]:
    """The pools of a SKU: itself, or its shards."""
    shards = shards_of(connection, sku_id)
    return shard_names(sku_id, shards) if shards > 1 else [sku_id]


def choose(connection: Connection, sku_id: str, shards: int, total: int, now: int) -> int:
    """Split a SKU that is new, and give its units to its shards; gives how many shards it has, whoever chose."""
    found = shards_of(connection, sku_id)
    if found:
        return found
    # Only beside Redis are pools split, and there the ledger is PostgreSQL.
    connection.execute(insert(splits).values(sku_id=sku_id, shards=shards, total=0).on_conflict_do_nothing())
    if shards_of(connection, sku_id) == shards > 1:
        change_total(connection, sku_id, lambda before: before or total, now)
    return shards_of(connection, sku_id)


def change_total(connection: Connection, sku_id: str, target: Target, now: int) -> int:
    """Set the total if units are to be added, which are on their way then; gives how many are missing for a smaller."""
    shards, total = _lock(connection, sku_id)
    wanted = target(total)
    if wanted <= total:
        return total - wanted
    _hand_out(connection, sku_id, shards, wanted - total, now)
    _set_total(connection, sku_id, wanted)
    return 0


def settle_smaller_total(connection: Connection, sku_id: str, target: Target, now: int) -> bool:
    """Let go of what the shards gave back, if that is enough for the smaller total; the rest is theirs again."""
    shards, total = _lock(connection, sku_id)
    collected = waiting_for(connection, [sku_id])
    units, wanted = sum(t.units for t in collected), min(target(total), total)
    is_enough = total - units <= wanted
    finish(connection, collected, now)
    _hand_out(connection, sku_id, shards, units - (total - wanted) * is_enough, now)
    if is_enough:
        _set_total(connection, sku_id, wanted)
    return is_enough


def _lock(connection: Connection, sku_id: str) -> tuple[int, int]:
    query = select(splits.c.shards, splits.c.total).where(splits.c.sku_id == sku_id).with_for_update()
    row = connection.execute(query).one()
    return row.shards, row.total


def _set_total(connection: Connection, sku_id: str, total: int) -> None:
    connection.execute(update(splits).where(splits.c.sku_id == sku_id).values(total=total))


def _hand_out(connection: Connection, sku_id: str, shards: int, units: int, now: int) -> None:
    last = counters_of(connection, sku_id).given
    parts = zip(shard_names(sku_id, shards), spread(units, shards), strict=True)
    given = [Transfer(sku_id, name, last.get(name, 0) + 1, part) for name, part in parts if part]
    insert_given(connection, given, now)


# Units may also be on their way to a pool that is whole, from what they are owed for.
_is_of_a_split = transfers.c.donor.contains("/") | transfers.c.receiver.contains("/")


def sums(connection: Connection) -> Mapping[str, Sums]:
    """In one statement, so that all of it is of one moment."""
    rows = union_all(
        select(literal("total"), splits.c.sku_id, splits.c.total).where(splits.c.shards > 1),
        select(literal("in_shards"), pools.c.sku_id, pools.c.total).where(pools.c.sku_id.contains("/")),
        select(literal("on_its_way"), transfers.c.donor, transfers.c.units).where(is_on_its_way, _is_of_a_split),
    )
    found: dict[str, Sums] = {}
    for what, name, units in connection.execute(rows):
        of_sku = found.setdefault(whole_of(name), Sums())
        setattr(of_sku, what, getattr(of_sku, what) + units)
    return found
