"""The queue of a pool: what is decided together, in which order, and what is dropped."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from gate_harness import sql_harness
from paced_gate import OneAtATime, PacedGate

from holdfast.domain.stock.command import Command, Provision, Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import Busy, OutcomeUnknown, Unavailable
from holdfast.gate.batcher import REFRESHED_AFTER, Batcher
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.runtime import metrics
from holdfast.testing.conformance import cancel
from holdfast.testing.states import SKU, reserve

Answers = list[asyncio.Future[Verdict]]


def named(commands: list[Command]) -> list[str]:
    return [c.reservation_id for c in commands if isinstance(c, Reserve)]


def submit_all(batcher: Batcher, *names: str, sku_id: str = SKU) -> Answers:
    return [batcher.submit(sku_id, reserve(name)) for name in names]


async def all_of(answers: Answers) -> list[Verdict | BaseException]:
    return await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 60)


async def behind_a_batch(gate: PacedGate, batcher: Batcher) -> Answers:
    """Someone whose batch is under way, so that the next command has to wait."""
    answers = submit_all(batcher, "first")
    await gate.arrival()
    return answers


class Hands:
    """The hands of the batcher's clock."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def turn(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    for module in ("gate.batcher", "runtime.batching"):
        monkeypatch.setattr(f"holdfast.{module}.monotonic", lambda: hands.now)
    return hands


# --- what is decided together


async def test_a_lone_command_is_a_batch_of_one_started_at_once() -> None:
    gate = PacedGate()
    batcher = Batcher(gate)
    batcher.submit(SKU, reserve("a"))
    await asyncio.sleep(0)
    assert gate.batches == [(SKU, [reserve("a")])]
    gate.release()
    await batcher.drain()


async def test_commands_that_arrive_together_go_together_in_order() -> None:
    gate = PacedGate(at_once=True)
    answers = submit_all(Batcher(gate), "c", "a", "b")
    await all_of(answers)
    assert [named(batch) for _, batch in gate.batches] == [["c", "a", "b"]]


async def test_commands_that_arrive_during_a_batch_share_the_next() -> None:
    gate = PacedGate()
    batcher = Batcher(gate)
    await behind_a_batch(gate, batcher)
    answers = submit_all(batcher, "a", "b")
    await asyncio.sleep(0)
    answers += submit_all(batcher, "c")
    gate.release()
    assert named(await gate.arrival()) == ["a", "b", "c"]
    gate.release()
    await all_of(answers)
    assert len(gate.batches) == 2


async def test_everyone_gets_the_verdict_on_their_own_command() -> None:
    def told(command: Command) -> Verdict:
        assert isinstance(command, Reserve)
        return Verdict(Outcome.RESERVED, available=int(command.reservation_id))

    answers = submit_all(Batcher(PacedGate(told, at_once=True), batch_max=7), *map(str, range(40)))
    assert [v.available for v in await asyncio.gather(*answers)] == list(range(40))


async def test_a_batch_is_limited_in_size() -> None:
    gate = PacedGate(at_once=True)
    await all_of(submit_all(Batcher(gate, batch_max=3), *"abcdefgh"))
    assert [named(batch) for _, batch in gate.batches] == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]


async def test_a_pool_has_one_batch_in_flight_and_pools_do_not_wait_for_one_another() -> None:
    gate = PacedGate()
    batcher = Batcher(gate)
    for name in "ab":
        for sku_id in ("one", "two"):
            submit_all(batcher, name, sku_id=sku_id)
        await asyncio.sleep(0)
    assert [sku_id for sku_id, _ in gate.batches] == ["one", "two"]
    gate.release(4)
    await batcher.drain()


# --- what is dropped


async def test_a_full_queue_is_busy_at_once_and_its_commands_are_served() -> None:
    gate = PacedGate()
    batcher = Batcher(gate, queue_max=2)
    answers = await behind_a_batch(gate, batcher)
    answers += submit_all(batcher, "a", "b")
    with pytest.raises(Busy):
        batcher.submit(SKU, reserve("c"))
    batcher.submit("another pool", reserve("d"))
    gate.release(3)
    assert await all_of(answers) == [Verdict(Outcome.RESERVED)] * 3


async def test_a_command_whose_caller_disconnected_is_never_decided() -> None:
    gate = PacedGate()
    batcher = Batcher(gate)
    await behind_a_batch(gate, batcher)
    gone, waiting = submit_all(batcher, "gone", "waiting")
    gone.cancel()
    gate.release(2)
    await waiting
    assert [named(batch) for _, batch in gate.batches] == [["first"], ["waiting"]]


async def test_a_queue_whose_callers_all_disconnected_starts_no_batch() -> None:
    gate = PacedGate()
    batcher = Batcher(gate)
    await behind_a_batch(gate, batcher)
    for answer in submit_all(batcher, "a", "b"):
        answer.cancel()
    gate.release()
    await batcher.drain()
    assert len(gate.batches) == 1


async def test_a_caller_who_disconnects_during_a_batch_does_not_affect_the_others() -> None:
    gate = PacedGate()
    gone, waiting = submit_all(Batcher(gate), "gone", "waiting")
    await gate.arrival()
    gone.cancel()
    gate.release()
    assert await waiting == Verdict(Outcome.RESERVED)


async def test_a_command_that_times_out_in_the_queue_is_busy_and_never_decided(hands: Hands) -> None:
    gate = PacedGate()
    batcher = Batcher(gate, timeout_s=2.0)
    await behind_a_batch(gate, batcher)
    [late] = submit_all(batcher, "late")
    hands.turn(1.5)
    [in_time] = submit_all(batcher, "in time")
    hands.turn(1.0)
    gate.release(2)
    assert await in_time == Verdict(Outcome.RESERVED)
    with pytest.raises(Busy):
        await late
    assert [named(batch) for _, batch in gate.batches] == [["first"], ["in time"]]


@pytest.mark.parametrize("failure", [Unavailable("down"), OutcomeUnknown("lost"), RuntimeError("defect")])
async def test_a_batch_without_a_verdict_fails_every_caller_and_only_them(failure: Exception) -> None:
    gate = PacedGate()
    batcher = Batcher(gate)
    answers = submit_all(batcher, "a", "b", "c")
    await gate.arrival()
    later = submit_all(batcher, "d")
    gate.failure = failure
    gate.release()
    assert await all_of(answers) == [failure] * 3
    gate.failure = None
    gate.release()
    assert await all_of(later) == [Verdict(Outcome.RESERVED)]


async def test_a_command_behind_a_hanging_batch_is_busy_in_time() -> None:
    gate = PacedGate()
    batcher = Batcher(gate, timeout_s=0.05)
    dropped = {reason: metrics.DROPPED.labels(reason)._value for reason in ("overdue", "caller_gone")}
    before = {reason: count.get() for reason, count in dropped.items()}
    [hanging] = await behind_a_batch(gate, batcher)
    for _ in range(2):  # The second time shows that the timer is set again.
        assert [type(end) for end in await all_of(submit_all(batcher, "a", "b"))] == [Busy] * 2
    assert not hanging.done()
    assert {reason: count.get() - before[reason] for reason, count in dropped.items()} == {
        "overdue": 4,
        "caller_gone": 0,
    }
    batcher._timeout_s = 60.0
    gate.release(2)
    assert await all_of([hanging, *submit_all(batcher, "c")]) == [Verdict(Outcome.RESERVED)] * 2
    assert [named(batch) for _, batch in gate.batches] == [["first"], ["c"]]


async def test_a_gate_that_returns_too_few_verdicts_fails_that_batch_and_not_the_queue() -> None:
    gate = PacedGate(at_once=True)
    whole, missing = gate.apply, 1

    async def too_few(sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        return (await whole(sku_id, commands))[missing:]

    gate.apply = too_few  # type: ignore[method-assign]
    batcher = Batcher(gate)
    assert [type(end) for end in await all_of(submit_all(batcher, "a", "b"))] == [OutcomeUnknown] * 2
    missing = 0
    assert await all_of(submit_all(batcher, "c")) == [Verdict(Outcome.RESERVED)]


@pytest.mark.parametrize("broken", ["_next_batch", "_on_failure", "_on_queue"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_defect_in_serving_a_queue_fails_its_commands_and_the_next_command_is_served(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    gate = PacedGate(at_once=True)
    gate.failure = Unavailable("down")
    batcher = Batcher(gate, batch_max=1)

    def defect(*_: object) -> None:
        raise RuntimeError("defect")

    with monkeypatch.context() as patch:
        patch.setattr(batcher, broken, defect)
        [*_, last] = submit_all(batcher, "a", "b")
        with pytest.raises((Unavailable, RuntimeError)):
            await asyncio.wait_for(last, 60)
    gate.failure = None
    assert await all_of(submit_all(batcher, "c")) == [Verdict(Outcome.RESERVED)]


# --- latency


async def test_latency_includes_waiting_commands_and_is_forgotten_on_an_idle_pool(hands: Hands) -> None:
    gate = PacedGate()
    batcher = Batcher(gate)
    assert batcher.slowness_ms() == {}
    [first] = submit_all(batcher, "first")
    await gate.arrival()
    hands.turn(0.75)
    assert batcher.slowness_ms() == {"sku": pytest.approx(750)}
    gate.release()
    await first
    hands.turn(0.5)
    assert batcher.slowness_ms() == {"sku": pytest.approx(750)}
    hands.turn(0.6)
    assert batcher.slowness_ms() == {}


# --- sold-out cache


SOLD_OUT = Verdict(Outcome.SOLD_OUT, available=0)


async def told(batcher: Batcher, gate: PacedGate, *verdicts: Verdict) -> None:
    """Have one batch answered with these verdicts."""
    left = list(verdicts)
    gate.answer = lambda _: left.pop(0)
    await all_of(submit_all(batcher, *[f"r{n}" for n in range(len(verdicts))]))


@pytest.mark.parametrize("verdict", [SOLD_OUT, Verdict(Outcome.ALL_HELD, available=0)])
async def test_a_refusal_for_stock_is_cached_for_a_moment(hands: Hands, verdict: Verdict) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate, cache_s=0.1)
    assert batcher.cached_refusal(SKU) is None
    await told(batcher, gate, verdict)
    hands.turn(0.099)
    assert batcher.cached_refusal(SKU) == verdict
    assert batcher.cached_refusal("another pool") is None
    hands.turn(0.001)
    assert batcher.cached_refusal(SKU) is None


async def test_one_of_a_stampede_is_decided_before_the_cache_expires(hands: Hands) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate, cache_s=0.1)
    await told(batcher, gate, SOLD_OUT)
    for _ in range(REFRESHED_AFTER):
        assert batcher.cached_refusal(SKU) == SOLD_OUT
    hands.turn(0.06)
    assert batcher.cached_refusal(SKU) is None
    assert batcher.cached_refusal(SKU) == SOLD_OUT
    hands.turn(0.05)
    assert batcher.cached_refusal(SKU) is None


async def test_the_age_of_the_cache_counts_from_before_the_batch_was_decided(hands: Hands) -> None:
    gate = PacedGate(lambda _: SOLD_OUT)
    batcher = Batcher(gate, cache_s=0.1)
    answers = submit_all(batcher, "a")
    await gate.arrival()
    hands.turn(0.1)
    gate.release()
    await all_of(answers)
    assert batcher.cached_refusal(SKU) is None


async def test_the_cache_expires_when_the_next_unit_is_due(hands: Hands) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate, cache_s=0.1)
    await told(batcher, gate, Verdict(Outcome.ALL_HELD, available=0, next_return_at=1, retry_after_ms=30))
    hands.turn(0.029)
    assert batcher.cached_refusal(SKU) is not None
    hands.turn(0.001)
    assert batcher.cached_refusal(SKU) is None


@pytest.mark.usefixtures("hands")
@pytest.mark.parametrize("outcome", [o for o in Outcome if o not in {Outcome.SOLD_OUT, Outcome.ALL_HELD}])
async def test_only_an_empty_pool_is_cached_and_any_other_outcome_clears_the_cache(outcome: Outcome) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate)
    await told(batcher, gate, SOLD_OUT)
    await told(batcher, gate, SOLD_OUT, Verdict(outcome))
    assert batcher.cached_refusal(SKU) is None


@pytest.mark.usefixtures("hands")
async def test_the_last_verdict_of_a_batch_is_cached() -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate)
    await told(batcher, gate, Verdict(Outcome.RESERVED), SOLD_OUT)
    assert batcher.cached_refusal(SKU) == SOLD_OUT


@pytest.mark.usefixtures("hands")
async def test_returned_units_are_available_to_the_next_attempt(database: Database) -> None:
    harness = sql_harness(database)
    await harness.apply(Provision(1))
    batcher = Batcher(harness.gate)
    await all_of(submit_all(batcher, "a", "b"))
    assert batcher.cached_refusal(SKU) is not None
    await batcher.submit(SKU, cancel("a"))
    assert batcher.cached_refusal(SKU) is None


@pytest.mark.usefixtures("hands")
async def test_the_cache_can_be_turned_off() -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate, cache_s=0)
    await told(batcher, gate, SOLD_OUT)
    assert batcher.cached_refusal(SKU) is None


# --- fairness, and the end


async def test_a_quiet_pool_waits_for_one_batch_of_a_hot_one_and_not_for_its_queue() -> None:
    gate = PacedGate()
    batcher = Batcher(OneAtATime(gate), batch_max=10)
    hot = submit_all(batcher, *map(str, range(500)), sku_id="hot")
    await gate.arrival()
    [quiet] = submit_all(batcher, "quiet", sku_id="quiet")
    gate.release(3)
    assert await asyncio.wait_for(quiet, 60) == Verdict(Outcome.RESERVED)
    assert [sku_id for sku_id, _ in gate.batches].index("quiet") <= 2
    gate.release(50)
    await all_of(hot)


async def test_a_quiet_pool_is_served_amid_a_stampede_on_a_hot_one(database: Database) -> None:
    gate = SqlGate(database)
    for sku_id in ("hot", "quiet"):
        await gate.apply(sku_id, [Provision(10_000)])
    batcher = Batcher(gate, batch_max=64, timeout_s=60)
    hot = submit_all(batcher, *map(str, range(4_000)), sku_id="hot")
    for n in range(5):
        await batcher.submit("quiet", reserve(f"quiet{n}"))
        assert not hot[-1].done()
    await asyncio.gather(*hot)


async def test_first_come_first_served_down_to_the_last_unit(database: Database) -> None:
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(300)])
    batcher = Batcher(gate, batch_max=128, timeout_s=60)
    verdicts = await asyncio.gather(*submit_all(batcher, *[f"r{n:04}" for n in range(1_000)]))
    assert [v.outcome for v in verdicts] == [Outcome.RESERVED] * 300 + [Outcome.ALL_HELD] * 700


async def test_fifty_requests_with_one_key_have_one_effect(database: Database) -> None:
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(300)])
    batcher = Batcher(gate, batch_max=7, timeout_s=60)
    verdicts = await asyncio.gather(*[batcher.submit(SKU, reserve(f"r{n}", key="k")) for n in range(50)])
    assert Counter(v.outcome for v in verdicts) == {Outcome.RESERVED: 1, Outcome.REPLAYED: 49}
    assert len({v.reservation for v in verdicts}) == 1


async def test_draining_answers_every_accepted_command() -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate, batch_max=3)
    await batcher.drain()
    answers = [*submit_all(batcher, *"abcdefgh", sku_id="one"), *submit_all(batcher, *"ab", sku_id="two")]
    await asyncio.wait_for(batcher.drain(), 60)
    assert all(answer.done() for answer in answers)
