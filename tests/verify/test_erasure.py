"""Erasing a buyer leaves nothing of them, and books, proofs and checkpoints that hold."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from finished_sale import FinishedSale
from sqlalchemy import Connection, exists, func, insert, select, update

from databases import new_postgres_database, new_sqlite_database
from holdfast.audit.buyer_export import buyer_rows
from holdfast.ledger.chain.checkpoint import Checkpoint, CheckpointKey
from holdfast.ledger.chain.links import read_head
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.erasure.erasing import EraseRefused
from holdfast.ledger.erasure.parked import names
from holdfast.ledger.erasure.trial import erase_buyer
from holdfast.ledger.mark.mark import begin_incarnation, read_mark, went_back
from holdfast.ledger.money.wallet import Wallet
from holdfast.ledger.schema import metadata
from holdfast.ledger.tables.chain import pruned_events
from holdfast.ledger.tables.money import refunds, wallet_accounts
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events, reservations
from holdfast.ledger.tables.streams import parked_messages
from holdfast.runtime.signing import SigningKey
from holdfast.testing.states import NOW
from holdfast.verify.history import compare
from holdfast.verify.prove import prove
from linked import link_all

# The others still have holds.
BUYERS = ("ada", "cid", "dan", "eve")
SIGNER = CheckpointKey(SigningKey("k", "s" * 32))


@pytest.fixture(params=["sqlite", "postgresql"])
async def finished(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FinishedSale]:
    if request.param == "sqlite":
        url = new_sqlite_database(tmp_path / "sale.db")
    else:
        url = new_postgres_database(request.getfixturevalue("postgres_url"))
    database = open_database(url)
    sale = FinishedSale(database)
    await sale.run()
    yield sale
    await database.close()


async def checkpointed(database: Database) -> Checkpoint:
    return SIGNER.sign("incarnation", await database.read(read_head), NOW)


async def refuted(database: Database, *checkpoints: Checkpoint) -> dict[str, object]:
    found = [*await database.read(prove), (await database.read(partial(compare, checkpoints=checkpoints)))[0]]
    return {finding.name: finding.examples for finding in found if not finding.ok}


def everything(connection: Connection) -> str:
    """All values of all rows."""
    found = [row for table in metadata.sorted_tables for row in connection.execute(select(table))]
    return "\n".join(repr(row) for row in found)


def totals(connection: Connection) -> list[object]:
    sums = (
        select(func.count(), func.sum(orders.c.amount), func.sum(orders.c.refunded_amount)).select_from(orders),
        select(func.sum(wallet_accounts.c.balance)),
        select(func.sum(reservations.c.quantity)),
        select(func.sum(refunds.c.amount)),
    )
    return [tuple(connection.execute(query).one()) for query in sums]


async def test_erased_buyers_leave_books_proofs_and_checkpoints_that_hold(finished: FinishedSale) -> None:
    database = finished.database
    before, sold = await checkpointed(database), await database.read(totals)
    trial = await erase_buyer(database, "ada", trial=True)
    assert trial.replaced["orders"] == 2
    assert await database.read(lambda c: buyer_rows(c, "ada"))
    for buyer_id in BUYERS:
        done = await erase_buyer(database, buyer_id)
        assert done.replaced["events"] > 0
        assert not await database.read(partial(buyer_rows, buyer_id=buyer_id))
    await link_all(database)
    after = await checkpointed(database)
    assert await refuted(database, before, after) == {}
    assert await database.read(totals) == sold
    left = await database.read(everything)
    for buyer_id in BUYERS:
        assert f"'{buyer_id}'" not in left
        assert f'"{buyer_id}"' not in left
        assert f":{buyer_id}" not in left
        assert f"-{buyer_id}" not in left
    assert (await erase_buyer(database, "ada")).is_empty


async def test_what_an_erasure_left_cannot_be_changed_unseen(finished: FinishedSale) -> None:
    database = finished.database
    await erase_buyer(database, "ada")
    await link_all(database)
    kept = exists().where(pruned_events.c.seq == events.c.seq)
    wanted = select(func.min(events.c.seq)).where(events.c.type == "order.confirmed")
    seq = await database.read(lambda c: c.execute(wanted.where(kept)).scalar_one())
    other = await database.read(lambda c: c.execute(wanted.where(~kept)).scalar_one())

    class Undo(Exception):
        pass

    def tamper(connection: Connection, how: str) -> None:
        if how == "redacted":
            connection.execute(update(events).where(events.c.seq == seq).values(quantity=9))
        else:
            connection.execute(insert(pruned_events).values(seq=other, hash="00" * 32, pruned_by=seq))
        found.update(f.name for f in prove(connection) if not f.ok)
        raise Undo

    for how in ("redacted", "another"):
        found = set[str]()
        with pytest.raises(Undo):
            await database.write(partial(tamper, how=how))
        assert "erasures_recorded" in found


async def test_a_running_server_does_not_take_an_erasure_for_a_ledger_that_went_back(finished: FinishedSale) -> None:
    database = finished.database
    await database.write(lambda c: begin_incarnation(c, 1, NOW))
    await Wallet(finished.clock).credit("ada", 5, "EUR", "last")
    seen = await database.read(read_mark)
    assert seen is not None
    await erase_buyer(database, "ada")
    assert await database.read(partial(went_back, seen=seen)) is None


async def test_a_buyer_with_a_live_hold_is_refused(finished: FinishedSale) -> None:
    with pytest.raises(EraseRefused, match="cannot erase bob yet: 1 live hold, 1 pending order"):
        await erase_buyer(finished.database, "bob")


@pytest.mark.parametrize("kind", [("[", "]"), ('{"a":', "}")])
def test_a_message_may_be_nested_as_deeply_as_can_be_decoded(kind: tuple[str, str]) -> None:
    opened, closed = kind
    # How deep that is depends on Python's version and on the caller.
    for depth in (*range(800, 1_100), 5_000):
        assert names(opened * depth + '"al"' + closed * depth, "al")
        assert not names(opened * depth + '"alan"' + closed * depth, "al")


@pytest.mark.parametrize(
    ("buyer_id", "body", "names_them"),
    [
        ("al", '{"buyer_id":"al","reason":"late"}', True),
        ("al", '{"buyers":[["al"]]}', True),
        ("al", '{"al":1}', True),
        ("al", '{"buyer_id":"\\u0061l"}', True),
        ("al", '{"buyer_id":"alice","reason":"al fresco"}', False),
        ("al", '{"buyer_id":"alice"} for al, cut o', True),
        ("al", '{"buyer_id":"alice","total', False),
        # As PHP writes it.
        ("a/l", '{"buyer_id":"a\\/l"}', True),
        # Refused, and so parked, because an ID has to be text.
        ("42", '{"buyer_id":42}', True),
        ("42", '{"buyer_id":421,"quantity":42}', False),
        ("al", "[" * 10_000 + '"al"', True),
    ],
)
async def test_only_what_names_a_buyer_with_a_short_id_stands_in_the_way_and_is_deleted(
    tmp_path: Path, buyer_id: str, body: str, names_them: bool
) -> None:
    database = open_database(new_sqlite_database(tmp_path / "sale.db"))
    message = {"message_id": "m", "reason": "x", "created_at": NOW, "body": body}
    await database.write(lambda c: c.execute(insert(parked_messages).values(message)))
    if names_them:
        with pytest.raises(EraseRefused, match="1 parked message"):
            await erase_buyer(database, buyer_id)
    else:
        assert (await erase_buyer(database, buyer_id)).is_empty
    await database.write(lambda c: c.execute(update(parked_messages).values(state="dropped")))
    assert (await erase_buyer(database, buyer_id)).deleted == ({"parked_messages": 1} if names_them else {})
    await database.close()
