"""A journal entry that the ledger refuses is parked with a finding, and those behind it are stored."""

from typing import Any

import pytest
from redis_tampering import KEYS, Through, check_books, over
from sqlalchemy import Connection, insert, select

from holdfast.domain.stock.command import Move, Provision, Transition
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.gate.redis import audit
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.encoding import decode, encode, key_field
from holdfast.gate.redis.gate import RedisGate
from holdfast.gate.redis.link.port import Command
from holdfast.ledger.stock.batch_writes import reservation_rows
from holdfast.ledger.tables.stock import parked_entries, reservations
from holdfast.settlement.parked import Parked
from holdfast.testing.states import MINUTE, SKU, reserve
from redis_setup import RedisSetup
from valkeys import ValkeyProcess

POISON = "journal_poisoned"


@pytest.fixture
async def gate(redis_setup: RedisSetup) -> RedisGate:
    gate = redis_setup.open_gate()
    await gate.apply(SKU, [Provision(100)])
    return gate


def lose_key(valkey: ValkeyProcess, owner: str, key: str) -> None:
    """Such that the manifest does not tell."""
    valkey.command("HDEL", KEYS.keys, key_field(owner, key))
    valkey.command("HINCRBY", KEYS.pool, "n_keys", -1)


async def reasons(world: RedisSetup) -> list[str]:
    def read(connection: Connection) -> list[str]:
        return list(connection.execute(select(parked_entries.c.history).order_by(parked_entries.c.seq)).scalars())

    return await world.database.read(read)


async def two_under_one_key(gate: RedisGate, valkey: ValkeyProcess) -> None:
    await gate.apply(SKU, [reserve("first", "ann", key="k")])
    lose_key(valkey, "ann", "k")
    verdicts = await gate.apply(SKU, [reserve("second", "ann", key="k"), reserve("beside", "bob", key="k")])
    assert [verdict.outcome for verdict in verdicts] == [Outcome.RESERVED] * 2
    await gate.apply(SKU, [reserve("behind", "cid", key="k"), Move(Transition.CONFIRM, "second")])


@pytest.mark.parametrize("is_drained_between", [True, False], ids=["stored before", "in one transaction"])
async def test_one_lost_key_keeps_nothing_out_of_the_ledger(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess, is_drained_between: bool
) -> None:
    await gate.apply(SKU, [reserve("first", "ann", key="k")])
    if is_drained_between:
        await redis_setup.drain(SKU)
    lose_key(valkey_server, "ann", "k")
    await gate.apply(SKU, [reserve("second", "ann", key="k"), reserve("beside", "bob", key="k")])
    await gate.apply(SKU, [reserve("behind", "cid", key="k"), Move(Transition.CONFIRM, "second")])
    await redis_setup.drainer.pass_once()
    assert (await redis_setup.gate_pool(SKU)).at == await redis_setup.position(SKU)
    [history] = await reasons(redis_setup)
    assert "first" in history
    assert "second" in history
    assert (await redis_setup.reconciler.pass_once())[SKU].finding == POISON
    valkey_server.command("FLUSHALL")
    for _ in range(2):
        await redis_setup.reconciler.pass_once()
    snapshot = await redis_setup.snapshot(SKU)
    assert set(snapshot.reservations) == {"first", "second", "beside", "behind"}
    assert snapshot.reservations["second"].status is Status.CONFIRMED
    # One key, one answer: the first.
    [again] = await gate.apply(SKU, [reserve("third", "ann", key="k")])
    assert again.outcome is Outcome.REPLAYED
    assert again.reservation is not None
    assert again.reservation.reservation_id == "first"
    await check_books(redis_setup)


async def take_id(world: RedisSetup, reservation_id: str) -> None:
    """Somebody else's reservation has the ID already."""
    other = Reservation(reservation_id, "other", "eve", 1, Status.EXPIRED, 1, 2)
    [row] = reservation_rows([other], counted=False)
    await world.database.write(lambda c: c.execute(insert(reservations).values(row)))


async def test_what_cannot_be_stored_is_parked_alone(redis_setup: RedisSetup, gate: RedisGate) -> None:
    await take_id(redis_setup, "taken")
    await gate.apply(SKU, [reserve("before"), reserve("taken", quantity=2), reserve("beside")])
    await gate.apply(SKU, [reserve("behind"), Move(Transition.CONFIRM, "before")])
    await gate.apply(SKU, [Move(Transition.CANCEL, "taken"), Move(Transition.CANCEL, "beside")])
    await redis_setup.drainer.pass_once()
    assert (await redis_setup.gate_pool(SKU)).at == await redis_setup.position(SKU)
    assert all("taken" in history for history in await reasons(redis_setup))
    assert (await redis_setup.reconciler.pass_once())[SKU].finding == POISON
    found = (await redis_setup.snapshot(SKU)).reservations
    assert {id_: r.status for id_, r in found.items()} == {
        "before": Status.CONFIRMED,
        "beside": Status.CANCELLED,
        "behind": Status.ACTIVE,
    }
    await check_books(redis_setup)


class Damaged(Through):
    """The journal says of one reservation that it has no units, which a constraint of the ledger refuses."""

    async def call(self, key: str, *commands: Command) -> list[Any]:
        replies = await super().call(key, *commands)
        is_read = commands[0][0] == "XRANGE"
        return [*map(self._damaged, replies[:2]), *replies[2:]] if is_read else replies

    def _damaged(self, found: list[Any]) -> list[Any]:
        return [(id_, (field, self._without_units(payload))) for id_, (field, payload) in found]

    def _without_units(self, payload: bytes) -> bytes:
        now, after, pool, created, *rest = decode(payload)
        created = [[id_, owner, 0 if id_ == "parked" else units, *more] for id_, owner, units, *more in created]
        return encode([now, after, pool, created, *rest])


async def test_a_hold_that_was_parked_comes_back_when_the_journal_names_it_again(
    redis_setup: RedisSetup, gate: RedisGate
) -> None:
    await gate.apply(SKU, [reserve("parked", quantity=3), reserve("beside")])
    await Drainer(redis_setup.clock, over(Damaged(redis_setup.link))).pass_once()
    await gate.apply(SKU, [reserve("behind"), Move(Transition.CONFIRM, "parked"), Move(Transition.CANCEL, "beside")])
    await redis_setup.drainer.pass_once()
    assert len(await reasons(redis_setup)) == 1
    assert (await redis_setup.reconciler.pass_once())[SKU].finding == POISON
    found = (await redis_setup.snapshot(SKU)).reservations
    assert {id_: r.status for id_, r in found.items()} == {
        "parked": Status.CONFIRMED,
        "beside": Status.CANCELLED,
        "behind": Status.ACTIVE,
    }
    await check_books(redis_setup)


async def test_operators_see_what_is_parked_and_can_drop_it(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await two_under_one_key(gate, valkey_server)
    await redis_setup.drain(SKU)
    await redis_setup.reconciler.pass_once()
    parked = Parked(redis_setup.database, None, {})  # type: ignore[arg-type]
    [item], _ = await parked.items()
    assert (item.kind, item.reason) == ("journal", POISON)
    assert item.history[0]["error"] == "reservations first and second of 'ann' have the same key 'k'"
    await parked.drop(item.parked_id, "ada")
    assert await parked.items() == ([], False)


async def test_lists_are_read_while_a_journal_cannot_be_drained(
    redis_setup: RedisSetup, gate: RedisGate, valkey_server: ValkeyProcess
) -> None:
    await gate.apply(SKU, [reserve("a")])
    valkey_server.command("XADD", KEYS.journal, "1-7", "c", "not an entry")
    await redis_setup.drainer.catch_up(SKU)


async def test_a_journal_that_nobody_drains_is_found(
    redis_setup: RedisSetup, gate: RedisGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gate.apply(SKU, [reserve("a", ttl_ms=MINUTE)])
    assert (await redis_setup.reconciler.pass_once())[SKU].finding is None
    monkeypatch.setattr(audit, "STALLED_AFTER_S", 0.0)
    assert (await redis_setup.reconciler.pass_once())[SKU].finding == "journal_stalled"
    await redis_setup.drain(SKU)
    assert (await redis_setup.reconciler.pass_once())[SKU].finding is None
