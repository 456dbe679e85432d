"""Which SKUs are split into shards, and how many units they have in all.

A SKU's row is written once, before its pool or shards are created, so two processes that create it differently agree on
one choice. Added units are transfers from the SKU itself to its shards, and removed units are transfers to it. They are
written together with the new total in one transaction under the lock of the row. So a total survives any crash, and the
shards receive added units in the same way as units from one another.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from sqlalchemy import Connection, exists, literal, select, union_all, update
from sqlalchemy.dialects.postgresql import insert

from holdfast.domain.stock.shards import shard_names, spread, whole_of
from holdfast.domain.stock.state import Transfer
from holdfast.ledger.stock.transfers import counters_of, finish, insert_given, waiting_for
from holdfast.ledger.tables.stock import is_in_transfer, pools, splits, transfers

# From the current total to the new one.
Target = Callable[[int], int]


class Sums(Struct):
    """A split SKU in the ledger, in one snapshot: its total, its shards, and units in transfer."""

    total: int = 0
    in_shards: int = 0
    in_transfer: int = 0

    @property
    def adds_up(self) -> bool:
        return self.total == self.in_shards + self.in_transfer


def shards_of(connection: Connection, sku_id: str) -> int:
    """1 for a pool that is not split, 0 if there is none."""
    found: int | None = connection.execute(select(splits.c.shards).where(splits.c.sku_id == sku_id)).scalar()
    if found is not None:
        return found
    return int(connection.execute(select(exists().where(pools.c.sku_id == sku_id))).scalar_one())


def totals(connection: Connection, sku_ids: Sequence[str] | None = None) -> dict[str, int]:
    """The totals of those SKUs that are split."""
    query = select(splits.c.sku_id, splits.c.total).where(splits.c.shards > 1)
    if sku_ids is not None:
        query = query.where(splits.c.sku_id.in_(sku_ids))
    return {row.sku_id: row.total for row in connection.execute(query)}


def names_of(connection: Connection, sku_id: str) -> list[str]:
    """The pools of a SKU: itself, or its shards."""
    shards = shards_of(connection, sku_id)
    return shard_names(sku_id, shards) if shards > 1 else [sku_id]


def choose(connection: Connection, sku_id: str, shards: int, total: int, now: int) -> int:
    """Split a new SKU and distribute its units. Returns its number of shards, even if another process split it."""
    found = shards_of(connection, sku_id)
    if found:
        return found
    # Pools are split only with Redis, where the ledger is PostgreSQL.
    connection.execute(insert(splits).values(sku_id=sku_id, shards=shards, total=0).on_conflict_do_nothing())
    if shards_of(connection, sku_id) == shards > 1:
        change_total(connection, sku_id, lambda before: before or total, now)
    return shards_of(connection, sku_id)


def change_total(connection: Connection, sku_id: str, target: Target, now: int) -> int:
    """Raise the total and put the new units in transfer. For a smaller total, returns how many units are missing."""
    shards, total = _lock(connection, sku_id)
    wanted = target(total)
    if wanted <= total:
        return total - wanted
    _hand_out(connection, sku_id, shards, wanted - total, now)
    _set_total(connection, sku_id, wanted)
    return 0


def settle_smaller_total(connection: Connection, sku_id: str, target: Target, now: int) -> bool:
    """Lower the total by what the shards gave back, if that is enough; the rest returns to them."""
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


# Units may also be in transfer to an unsplit pool, from the sources that owe it units.
_is_of_a_split = transfers.c.donor.contains("/") | transfers.c.receiver.contains("/")


def sums_of_splits(connection: Connection) -> Mapping[str, Sums]:
    """From one statement, so that all sums belong to one snapshot."""
    rows = union_all(
        select(literal("total"), splits.c.sku_id, splits.c.total).where(splits.c.shards > 1),
        select(literal("in_shards"), pools.c.sku_id, pools.c.total).where(pools.c.sku_id.contains("/")),
        select(literal("in_transfer"), transfers.c.donor, transfers.c.units).where(is_in_transfer, _is_of_a_split),
    )
    found: dict[str, Sums] = {}
    for what, name, units in connection.execute(rows):
        of_sku = found.setdefault(whole_of(name), Sums())
        setattr(of_sku, what, getattr(of_sku, what) + units)
    return found
