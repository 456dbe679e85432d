"""How many units the clients at one address have in a sale.

A purchase is noted before the gate decides it, under a lock of sale and address, so that together they never exceed the
limit. It counts according to the state of its reservation: returned units no longer count. If the ledger does not have
the reservation, it is either on its way or was never made; after `UNDECIDED_MS` it is taken as never made. It does not
count against a retry of the same purchase, because the gate grants only one of the two.
"""

from sqlalchemy import Connection, and_, case, delete, false, func, insert, not_, select, text, update

from holdfast.domain.stock.command import Reserve
from holdfast.domain.stock.reservation import Status
from holdfast.ledger.tables.sales import address_units
from holdfast.ledger.tables.stock import reservations

# Much longer than the journal takes to reach the ledger.
UNDECIDED_MS = 5 * 60_000
_COUNTING = (Status.ACTIVE.value, Status.SETTLING.value, Status.CONFIRMED.value)


def take_units(connection: Connection, sale_id: str, address: str, command: Reserve, *, limit: int, now: int) -> bool:
    """Whether the address may have this many more units; if so, they are noted."""
    if connection.dialect.name == "postgresql":
        # Other transactions of this address wait; on SQLite there is only one writer anyway.
        lock = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 20))")
        connection.execute(lock, {"name": f"{sale_id}\n{address}"})
    if _units_of(connection, sale_id, address, command, now) + command.quantity > limit:
        return False
    noted = {
        "reservation_id": command.reservation_id,
        "sale_id": sale_id,
        "address": address,
        "owner_id": command.owner_id,
        "idempotency_key": command.key,
        "units": command.quantity,
        "created_at": now,
    }
    # A repeated purchase with a quote asks for the same reservation.
    connection.execute(delete(address_units).where(address_units.c.reservation_id == command.reservation_id))
    connection.execute(insert(address_units).values(noted))
    return True


def _units_of(connection: Connection, sale_id: str, address: str, command: Reserve, now: int) -> int:
    a, status = address_units.c, reservations.c.status
    is_retried = func.coalesce(and_(a.owner_id == command.owner_id, a.idempotency_key == command.key), false())
    is_undecided = and_(a.created_at > now - UNDECIDED_MS, not_(is_retried))
    counts = case((status.is_(None), is_undecided), else_=status.in_(_COUNTING))
    found = (
        select(func.coalesce(func.sum(a.units), 0))
        .join_from(address_units, reservations, reservations.c.reservation_id == a.reservation_id, isouter=True)
        .where(a.sale_id == sale_id, a.address == address, counts)
    )
    return int(connection.execute(found).scalar_one())


def set_units(connection: Connection, reservation_id: str, units: int) -> None:
    """Set the granted units; with none, the reservation was not made."""
    is_it = address_units.c.reservation_id == reservation_id
    connection.execute(
        update(address_units).where(is_it).values(units=units) if units else delete(address_units).where(is_it)
    )
