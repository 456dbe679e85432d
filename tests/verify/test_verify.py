"""The auditor passes every ledger that is right, and names what is wrong in one that is not."""

from typing import Any, Protocol
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from line_world import stand_in_line
from sold_world import PRICE, SALE, SKU, SoldWorld, id_of, insert_refund
from sqlalchemy import Connection, insert, select, update
from tampering import CASES

from holdfast.domain.sale.sale import order_id_of
from holdfast.domain.stock.command import Command, Provision
from holdfast.domain.stock.pool import Rules
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.facts import encode_facts
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.stock.drift import record_drift
from holdfast.ledger.tables.money import settlements
from holdfast.ledger.tables.sales import sales
from holdfast.ledger.tables.stock import events
from holdfast.testing.states import NOW
from holdfast.verify.check import EXAMPLES_MAX, Finding, Level
from holdfast.verify.prove import CHECKS, Proof, prove
from profiles import examples
from redis_setup import RedisSetup
from set_clock import SetClock
from strategies import Namer, gentle_rules, histories, opening
from valkeys import ValkeyProcess

REPLAY = "rows_as_recorded"
UNRECORDED = "rows_not_recorded"


class Clock(Protocol):
    def advance(self, ms: int) -> None: ...


class _Undo(Exception):
    pass


async def found_after(database: Database, tamper: Any) -> dict[str, Finding]:
    """What the auditor says of the ledger after it was tampered with, which is undone again."""
    findings: list[Finding] = []

    def work(connection: Connection) -> None:
        tamper(connection)
        findings.extend(prove(connection))
        raise _Undo

    with pytest.raises(_Undo):
        await database.write(work, timeout_s=30.0)
    return {finding.name: finding for finding in findings}


def refuted(findings: dict[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if not finding.ok}


@pytest.fixture
async def sold(database: Database) -> SoldWorld:
    world = SoldWorld(database)
    await world.fill()
    await stand_in_line(database)
    return world


async def test_a_ledger_in_which_everything_has_happened_is_proven(sold: SoldWorld) -> None:
    findings = await found_after(sold.database, lambda _: None)
    assert Proof(list(findings.values())).ok, refuted(findings)
    found = {name: finding.count for name, finding in findings.items() if finding.count}
    assert found.pop(UNRECORDED) > 0
    assert found == {"settlements_open": 1}
    without = {"splits_add_up", "history_unchanged", "erasures_recorded"}
    assert all(finding.looked_at for finding in findings.values() if finding.name not in without)


@pytest.mark.parametrize("part", range(4))
async def test_what_was_tampered_with_is_named_and_nothing_else(sold: SoldWorld, part: int) -> None:
    for case in CASES[part::4]:
        findings = await found_after(sold.database, case.tamper)
        # Most of them are also not what the events say; see test_tampering.py.
        assert refuted(findings) - {REPLAY} == case.named, case.name
        for name in case.named:
            assert len(findings[name].examples) == min(findings[name].count, EXAMPLES_MAX) > 0


def test_every_check_has_a_tampering_that_it_alone_or_among_others_names() -> None:
    can_fail = {check.name for check in CHECKS if check.level is Level.FAILURE}
    assert can_fail == {REPLAY}.union(*(case.named for case in CASES))
    assert len({check.name for check in CHECKS}) == len(CHECKS)


async def test_a_limit_that_was_lowered_later_is_a_note(sold: SoldWorld) -> None:
    def lower(connection: Connection) -> None:
        connection.execute(update(sales).values(per_buyer_limit=1, updated_at=NOW + 1))
        connection.exec_driver_sql(f"UPDATE pools SET per_owner_limit = 1 WHERE sku_id = '{SKU}'")

    findings = await found_after(sold.database, lower)
    assert refuted(findings) == {REPLAY}
    assert findings["limits_above_now"].count == 4
    notes = [findings["limits_above_now"]]
    assert Proof(notes).ok
    assert not Proof(notes, strict=True).ok


async def test_a_pool_that_was_rebuilt_in_redis_is_proven(
    redis_setup: RedisSetup, valkey_server: ValkeyProcess
) -> None:
    await redis_setup.open_gate().apply(SKU, [Provision(5)])
    await redis_setup.drain(SKU)
    redis_setup.clock.advance(1_000)
    valkey_server.command("FLUSHALL")
    for _ in range(2):
        await redis_setup.reconciler.pass_once()
    position = await redis_setup.position(SKU)
    assert position is not None
    assert position.epoch > 1
    assert refuted(await found_after(redis_setup.database, lambda _: None)) == set()


def change_sale(connection: Connection, price: int, *, is_old: bool) -> None:
    """As the processes of this or of an earlier release do."""
    connection.execute(update(sales).values(price_amount=price))
    facts = {} if is_old else {"facts": encode_facts({"sales": [{"sale_id": SALE.sale_id, "price_amount": price}]})}
    connection.execute(insert(events).values(sku_id=SKU, type="sale.changed", at=NOW, subject=SALE.sale_id, **facts))


async def test_what_an_earlier_release_changes_during_an_upgrade_is_a_note(database: Database) -> None:
    def upgrade(connection: Connection) -> None:
        connection.execute(insert(events).values(sku_id=SKU, type="pool.drift", at=NOW))
        insert_sale(connection, SALE)
        change_sale(connection, PRICE + 1, is_old=True)

    found = await found_after(database, upgrade)
    assert refuted(found) == set()
    assert [example["wrong"] for example in found[UNRECORDED].examples] == ["price_amount"]

    def tamper_afterwards(connection: Connection) -> None:
        upgrade(connection)
        change_sale(connection, PRICE + 2, is_old=False)
        connection.execute(update(sales).values(price_amount=PRICE + 3))

    assert refuted(await found_after(database, tamper_afterwards)) == {REPLAY}


async def test_an_event_without_facts_excuses_nothing_in_a_ledger_that_began_with_facts(database: Database) -> None:
    def tamper(connection: Connection) -> None:
        insert_sale(connection, SALE)
        connection.execute(insert(sales).values(row_of(connection) | {"sale_id": "inserted", "sku_id": "other"}))
        connection.execute(insert(events).values(sku_id=SKU, type="pool.drift", at=NOW))

    def row_of(connection: Connection) -> dict[str, Any]:
        return dict(connection.execute(select(sales)).one()._mapping)

    assert refuted(await found_after(database, tamper)) == {REPLAY}


async def test_drift_is_recorded_with_facts(database: Database) -> None:
    await SqlGate(SetClock(database)).apply(SKU, [Provision(5)])
    await database.write(lambda c: record_drift(c, database, SKU))
    recorded = await database.read(lambda c: c.execute(select(events.c.facts)).scalars().all())
    assert None not in recorded


async def test_what_is_in_progress_is_open_and_refutes_nothing(sold: SoldWorld) -> None:
    def pause(connection: Connection) -> None:
        """The settler died after the capture of one and before its order; a refund of another waits."""
        connection.exec_driver_sql(f"UPDATE payments SET state = 'captured' WHERE reservation_id = '{id_of(7)}'")
        connection.execute(
            update(settlements).where(settlements.c.reservation_id == id_of(7)).values(state="parked", reason="odd")
        )
        insert_refund(connection, 2, PRICE, order_id=order_id_of(id_of(2)), state="waiting")
        connection.exec_driver_sql("UPDATE refunds SET state = 'notifying' WHERE order_id IS NULL")

    findings = await found_after(sold.database, pause)
    assert refuted(findings) - {REPLAY} == set()
    assert findings["charges_open"].count == 2


async def act_out(data: st.DataObject, clock: Clock, gate: Gate) -> None:
    """A history of a new pool."""
    sku_id = f"sku-{uuid4().hex}"
    namer = Namer(sku_id)
    first: list[Command] = opening(data.draw(st.integers(1, 12)), data.draw(st.just(Rules()) | gentle_rules))
    for step_ms, batch in [(0, first), *data.draw(histories)]:
        clock.advance(step_ms)
        commands = namer.name(batch)
        namer.learn(commands, await gate.apply(sku_id, commands))


@examples(5, all_=100)
@given(data=st.data())
async def test_whatever_the_gate_did_the_ledger_is_proven(database: Database, data: st.DataObject) -> None:
    clock = SetClock(database)
    await act_out(data, clock, SqlGate(clock))
    findings = await found_after(database, lambda _: None)
    assert refuted(findings) == set()
    assert findings["pools_within_total"].looked_at > 0


@examples(5, all_=100)
@given(data=st.data())
async def test_the_ledger_behind_redis_is_proven_however_far_it_has_heard(
    redis_setup: RedisSetup, data: st.DataObject
) -> None:
    await act_out(data, redis_setup.clock, redis_setup.open_gate())
    assert refuted(await found_after(redis_setup.database, lambda _: None)) == set()
    await redis_setup.drainer.catch_up(None)
    findings = await found_after(redis_setup.database, lambda _: None)
    assert refuted(findings) == set()
    assert findings["reservations_begin_once"].looked_at > 0
