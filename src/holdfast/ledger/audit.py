"""Whether the ledger agrees with itself: what a pool's row says, against its reservations one by one."""

from msgspec import Struct
from sqlalchemy import Connection, func, select, true

from holdfast.domain.pool import Pool
from holdfast.domain.reservation import Status
from holdfast.ledger.batch import Position, pool_from_row
from holdfast.ledger.journal import HELD
from holdfast.ledger.tables import claims, pools, reservations


class Counts(Struct, frozen=True):
    held: int
    sold: int
    active_reservations: int


class LedgerPool(Struct, frozen=True):
    """A pool as the ledger has it."""

    at: Position
    decided_at: int
    pool: Pool
    unheard_claims: int

    @property
    def counts(self) -> Counts:
        return counts_of(self.pool)


def counts_of(pool: Pool) -> Counts:
    return Counts(pool.held, pool.sold, pool.active_reservations)


def ledger_pools(connection: Connection, claimed_before: int, sku_id: str | None = None) -> dict[str, LedgerPool]:
    """All pools, or one, with the claims made before a moment that no journal has told of."""
    waiting = (
        select(func.count())
        .where(claims.c.sku_id == pools.c.sku_id, claims.c.claimed_at < claimed_before)
        .scalar_subquery()
    )
    wanted = select(pools, waiting.label("unheard_claims")).order_by(pools.c.sku_id)
    if sku_id is not None:
        wanted = wanted.where(pools.c.sku_id == sku_id)
    rows = connection.execute(wanted)
    return {
        row.sku_id: LedgerPool(
            Position(row.epoch, row.journal_seq), row.decided_at, pool_from_row(row), row.unheard_claims
        )
        for row in rows
    }


def said_and_counted(connection: Connection, sku_id: str) -> tuple[Counts, Counts]:
    """What the pool's row says, and what its reservations add up to: in one statement, so both are of one moment."""
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
    said = (pools.c.held, pools.c.sold, pools.c.active_reservations)
    both = select(*said, *counted.c).select_from(pools.join(counted, true())).where(pools.c.sku_id == sku_id)
    row = connection.execute(both).one()
    numbers = [int(value) for value in row]
    return Counts(*numbers[:3]), Counts(*numbers[3:])
