"""What a server remembers comes back into a ledger that lost it, as far as there are units for it."""

from functools import partial

from sqlalchemy import Connection

from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import Acknowledged
from holdfast.ledger.stock.batch import batch_queries
from holdfast.ledger.stock.recovery.restore import restore
from holdfast.testing.states import SKU, reserve
from ledger_snapshot import read_ledger_snapshot

LATER = 4_000_000_000_000


def remembered(name: str, status: Status = Status.ACTIVE, quantity: int = 1, key: str | None = None) -> Acknowledged:
    request = reserve(name, "ada", quantity, key=key)
    return Acknowledged(Reservation(name, SKU, "ada", quantity, status, LATER - 1, LATER), key, request.fingerprint)


async def restored(database: Database, *lost: Acknowledged) -> list[str]:
    def work(connection: Connection) -> list[str]:
        return restore(connection, batch_queries(database.dialect_name), database, SKU, lost)

    return await database.write(work)


async def pool(database: Database, units: int) -> SqlGate:
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(units)])
    return gate


async def test_holds_and_sales_come_back_and_are_counted(database: Database) -> None:
    await pool(database, 10)
    lost = [remembered("a"), remembered("b", Status.CONFIRMED, 2), remembered("c", Status.CANCELLED)]
    assert await restored(database, *lost) == ["a", "b", "c"]
    snapshot = await read_ledger_snapshot(database, SKU)
    snapshot.check()
    assert snapshot.pool is not None
    assert (snapshot.pool.held, snapshot.pool.sold) == (1, 2)


async def test_what_was_restored_is_not_restored_again(database: Database) -> None:
    await pool(database, 10)
    again = partial(restored, database, remembered("a"))
    assert await again() == ["a"]
    assert await again() == []


async def test_nothing_comes_back_without_units_for_it(database: Database) -> None:
    gate = await pool(database, 2)
    await gate.apply(SKU, [reserve("new", "bob", 1)])
    assert await restored(database, remembered("a", quantity=2), remembered("b")) == ["b"]
    (await read_ledger_snapshot(database, SKU)).check()


async def test_a_hold_whose_confirmation_was_lost_is_confirmed(database: Database) -> None:
    gate = await pool(database, 10)
    await gate.apply(SKU, [reserve("a", "ada", 3)])
    assert await restored(database, remembered("a", Status.CONFIRMED, 3)) == ["a"]
    snapshot = await read_ledger_snapshot(database, SKU)
    snapshot.check()
    assert snapshot.pool is not None
    assert (snapshot.pool.held, snapshot.pool.sold, snapshot.pool.active_reservations) == (0, 3, 0)


async def test_the_same_key_finds_the_restored_reservation(database: Database) -> None:
    gate = await pool(database, 10)
    await restored(database, remembered("a", key="k"))
    [verdict] = await gate.apply(SKU, [reserve("b", "ada", key="k")])
    assert verdict.outcome is Outcome.REPLAYED
    assert verdict.reservation is not None
    assert verdict.reservation.reservation_id == "a"


async def test_a_buyer_who_was_served_again_with_the_same_key_does_not_get_both(database: Database) -> None:
    """Seed 68348: a server that had not noticed the loss served the buyer once more; both were settled and charged."""
    gate = await pool(database, 10)
    await gate.apply(SKU, [reserve("again", "ada", key="k")])
    assert await restored(database, remembered("a", Status.SETTLING, key="k")) == []
    # As what has ended, it comes back, so that its charge is returned.
    assert await restored(database, remembered("a", Status.EXPIRED, key="k")) == ["a"]
    [verdict] = await gate.apply(SKU, [reserve("b", "ada", key="k")])
    assert verdict.reservation is not None
    assert verdict.reservation.reservation_id == "again"


async def test_nothing_comes_back_above_the_limit_per_buyer(database: Database) -> None:
    gate = await pool(database, 10)
    await gate.apply(SKU, [Provision(10, Rules(per_owner_limit=3)), reserve("again", "ada")])
    lost = [remembered("a", quantity=2), remembered("b"), remembered("c", Status.CANCELLED)]
    assert await restored(database, *lost) == ["a", "c"]
    (await read_ledger_snapshot(database, SKU)).check()
