"""How many units a buyer has in a drop, exactly, across all of its sales.

The model. A purchase claims its units here before the gate decides it, under a lock of drop and buyer, so that together
they never exceed the limit. A claim counts according to the state of its reservation: returned units no longer count,
without any write here. A claim whose reservation the ledger does not have is undecided. It counts until the reservation
is known not to exist: because the gate refused it, or because the claim is older than `UNDECIDED_MS` and the ledger has
since caught up with the gate. It does not count against a retry of the same purchase: the gate grants only one of the
two.

When it fails. A process that dies between its claim and the gate leaves an undecided claim, which reduces the allowance
for a few minutes. The count is never too low.
"""

from msgspec import Struct
from sqlalchemy import Connection, and_, delete, insert, not_, or_, select, text, update

from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.reservation import Status
from holdfast.domain.stock.rulebook import LIVE
from holdfast.ledger.tables.sales import drop_units, drops
from holdfast.ledger.tables.stock import reservations

# Much longer than it can take from a claim to the decision of the gate (`checkout/allowances.py`).
UNDECIDED_MS = 5 * 60_000
_HELD = (Status.ACTIVE.value, Status.SETTLING.value)


class Exceeded(Struct, frozen=True):
    """The limit, and what counts against it."""

    limit: int
    # The units that the buyer holds now.
    reservation_ids: list[str]
    # The pools of everything that counts.
    sku_ids: set[str]


def claim_units(
    connection: Connection, sale: Sale, command: Reserve, *, now: int, lost_before: int = 0
) -> Exceeded | None:
    """Claim the units of a purchase, unless that exceeds the limit. `lost_before`: claims older than this failed if the
    ledger has no reservation for them."""
    limit = connection.execute(select(drops.c.per_buyer_limit).where(drops.c.drop_id == sale.drop_id)).scalar()
    if limit is None:
        return None
    _lock(connection, f"{sale.drop_id}\n{command.owner_id}")
    u, status = drop_units.c, reservations.c.status
    theirs = (u.drop_id == sale.drop_id, u.buyer_id == command.owner_id)
    is_retried = and_(u.sale_id == sale.sale_id, u.idempotency_key.is_not(None), u.idempotency_key == command.key)
    is_undecided = and_(status.is_(None), u.created_at >= lost_before, not_(is_retried))
    counting = (
        select(u.reservation_id, u.sku_id, u.units, status)
        .join_from(drop_units, reservations, reservations.c.reservation_id == u.reservation_id, isouter=True)
        .where(*theirs, u.reservation_id != command.reservation_id, or_(is_undecided, status.in_(LIVE)))
        .order_by(u.reservation_id.desc())
    )
    found = connection.execute(counting).all()
    if sum(row.units for row in found) + command.quantity > limit:
        held = [row.reservation_id for row in found if row.status in _HELD]
        return Exceeded(limit, held, {row.sku_id for row in found})
    _claim(connection, sale, command, now)
    return None


def _lock(connection: Connection, name: str) -> None:
    """Other transactions of this buyer wait; on SQLite there is only one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 22))"), {"name": name})


def _claim(connection: Connection, sale: Sale, command: Reserve, now: int) -> None:
    claimed = {
        "reservation_id": command.reservation_id,
        "drop_id": sale.drop_id,
        "sale_id": sale.sale_id,
        "sku_id": sale.sku_id,
        "buyer_id": command.owner_id,
        "idempotency_key": command.key,
        "units": command.quantity,
        "created_at": now,
    }
    # A repeated purchase with a quote asks for the same reservation.
    connection.execute(delete(drop_units).where(drop_units.c.reservation_id == command.reservation_id))
    connection.execute(insert(drop_units).values(claimed))


def set_claimed(connection: Connection, reservation_id: str, units: int) -> None:
    """Set the granted units; with none, the reservation was not made."""
    is_it = drop_units.c.reservation_id == reservation_id
    connection.execute(
        update(drop_units).where(is_it).values(units=units) if units else delete(drop_units).where(is_it)
    )
