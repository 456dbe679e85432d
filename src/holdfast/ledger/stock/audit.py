"""Whether the ledger is consistent: the row of a pool against the sum of its reservations."""

from msgspec import Struct
from sqlalchemy import Connection, exists, func, select, true

from holdfast.domain.stock.pool import Pool
from holdfast.domain.stock.reservation import Status
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import HELD
from holdfast.ledger.tables.rows import pool_from_row
from holdfast.ledger.tables.stock import claims, parked_entries, pools, reservations


class Counts(Struct, frozen=True):
    held: int
    sold: int
    active_reservations: int


class LedgerPool(Struct, frozen=True):
    """A pool as the ledger has it."""

    at: Position
    decided_at: int
    pool: Pool
    unconfirmed_claims: int
    is_poisoned: bool = False
    """Whether an entry of this epoch is parked, so that gate and ledger differ."""

    @property
    def counts(self) -> Counts:
        return counts_of(self.pool)


def counts_of(pool: Pool) -> Counts:
    return Counts(pool.held, pool.sold, pool.active_reservations)


def ledger_pools(connection: Connection, claimed_before: int, sku_id: str | None = None) -> dict[str, LedgerPool]:
    """All pools, or one, with the number of claims older than this that the journal has not confirmed."""
    waiting = (
        select(func.count())
        .where(claims.c.sku_id == pools.c.sku_id, claims.c.claimed_at < claimed_before)
        .scalar_subquery()
    )
    is_poisoned = exists().where(
        parked_entries.c.sku_id == pools.c.sku_id, parked_entries.c.epoch == pools.c.epoch, pools.c.epoch > 0
    )
    wanted = select(pools, waiting.label("unconfirmed_claims"), is_poisoned.label("is_poisoned"))
    wanted = wanted.order_by(pools.c.sku_id)
    if sku_id is not None:
        wanted = wanted.where(pools.c.sku_id == sku_id)
    rows = connection.execute(wanted)
    return {
        row.sku_id: LedgerPool(
            Position.of(row),
            row.decided_at,
            pool_from_row(row),
            row.unconfirmed_claims,
            bool(row.is_poisoned),
        )
        for row in rows
    }


def stored_and_counted(connection: Connection, sku_id: str) -> tuple[Counts, Counts]:
    """The counts in the row and those of the reservations, from one statement and hence one snapshot."""
    status, quantity = reservations.c.status, reservations.c.quantity
    counted = (
        select(
            func.coalesce(func.sum(quantity).filter(status.in_(HELD)), 0).label("held"),
            func.coalesce(func.sum(quantity).filter(status == Status.CONFIRMED), 0).label("sold"),
            func.count().filter(status == Status.ACTIVE).label("active"),
        )
        .where(reservations.c.sku_id == sku_id)
        .subquery("counted")
    )
    stored = (pools.c.held, pools.c.sold, pools.c.active_reservations)
    both = select(*stored, *counted.c).select_from(pools.join(counted, true())).where(pools.c.sku_id == sku_id)
    row = connection.execute(both).one()
    numbers = [int(value) for value in row]
    return Counts(*numbers[:3]), Counts(*numbers[3:])
