"""The auditor passes every ledger that is right, and names what is wrong in one that is not."""

from typing import Any, Protocol
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from line_world import stand_in_line
from sold_world import PRICE, SKU, SoldWorld, id_of, insert_refund
from sqlalchemy import Connection, update
from tampering import CASES

from holdfast.domain.command import Command
from holdfast.domain.pool import Rules
from holdfast.domain.sale import order_id_of
from holdfast.gate.port import Gate
from holdfast.gate.sql import SqlGate
from holdfast.ledger.database import Database
from holdfast.ledger.sale_tables import sales, settlements
from holdfast.verify.check import EXAMPLES_MAX, Finding, Level
from holdfast.verify.prove import CHECKS, Proof, prove
from redis_world import RedisWorld
from set_clock import SetClock
from strategies import Namer, gentle_rules, histories, opening
from worlds import NOW


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
    assert Proof(list(findings.values()), strict=True).ok, refuted(findings)
    found = {name: finding.count for name, finding in findings.items() if finding.count}
    assert found == {"settlements_open": 1}
    assert all(finding.looked_at for finding in findings.values() if finding.name != "splits_add_up")


async def test_what_was_tampered_with_is_named_and_nothing_else(sold: SoldWorld) -> None:
    for case in CASES:
        findings = await found_after(sold.database, case.tamper)
        assert refuted(findings) == case.named, case.name
        for name in case.named:
            assert len(findings[name].examples) == min(findings[name].count, EXAMPLES_MAX) > 0


def test_every_check_has_a_tampering_that_it_alone_or_among_others_names() -> None:
    can_fail = {check.name for check in CHECKS if check.level is Level.FAILURE}
    assert can_fail == set().union(*(case.named for case in CASES))
    assert len({check.name for check in CHECKS}) == len(CHECKS)


async def test_a_limit_that_was_lowered_later_is_a_note(sold: SoldWorld) -> None:
    def lower(connection: Connection) -> None:
        connection.execute(update(sales).values(per_buyer_limit=1, updated_at=NOW + 1))
        connection.exec_driver_sql(f"UPDATE pools SET per_owner_limit = 1 WHERE sku_id = '{SKU}'")

    findings = await found_after(sold.database, lower)
    assert refuted(findings) == set()
    assert findings["limits_above_now"].count == 4
    assert Proof(list(findings.values())).ok
    assert not Proof(list(findings.values()), strict=True).ok


async def test_what_is_under_way_is_open_and_refutes_nothing(sold: SoldWorld) -> None:
    def pause(connection: Connection) -> None:
        """The settler died after the capture of one and before its order; a refund of another waits."""
        connection.exec_driver_sql(f"UPDATE payments SET state = 'captured' WHERE reservation_id = '{id_of(7)}'")
        connection.execute(
            update(settlements).where(settlements.c.reservation_id == id_of(7)).values(state="parked", reason="odd")
        )
        insert_refund(connection, 2, PRICE, order_id=order_id_of(id_of(2)), state="waiting")
        connection.exec_driver_sql("UPDATE refunds SET state = 'telling' WHERE order_id IS NULL")

    findings = await found_after(sold.database, pause)
    assert refuted(findings) == set()
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


steadily = settings(
    derandomize=True,
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@steadily
@given(data=st.data())
async def test_whatever_the_gate_did_the_ledger_is_proven(database: Database, data: st.DataObject) -> None:
    clock = SetClock(database)
    await act_out(data, clock, SqlGate(clock))
    findings = await found_after(database, lambda _: None)
    assert refuted(findings) == set()
    assert findings["pools_within_total"].looked_at > 0


@steadily
@given(data=st.data())
async def test_the_ledger_behind_redis_is_proven_however_far_it_has_heard(
    redis_world: RedisWorld, data: st.DataObject
) -> None:
    await act_out(data, redis_world.clock, redis_world.open_gate())
    assert refuted(await found_after(redis_world.database, lambda _: None)) == set()
    await redis_world.drainer.catch_up(None)
    findings = await found_after(redis_world.database, lambda _: None)
    assert refuted(findings) == set()
    assert findings["reservations_begin_once"].looked_at > 0
