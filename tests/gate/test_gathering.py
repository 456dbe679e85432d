"""Who asks an empty pool gathers for a moment, so that many are answered by one look."""

import asyncio

import pytest
from paced_gate import PacedGate

from holdfast.domain.stock.command import Command, Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.gate.batcher import GATHER_S, Batcher
from holdfast.testing.states import SKU, reserve

SOLD_OUT = Verdict(Outcome.SOLD_OUT, available=0)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The hands of the batcher's clock."""
    hands = {"now": 1_000.0}
    for module in ("gate.batcher", "runtime.batching"):
        monkeypatch.setattr(f"holdfast.{module}.monotonic", lambda: hands["now"])
    return hands


async def batches_after(gate: PacedGate, batcher: Batcher) -> list[list[str]]:
    """Two who come one after the other; gives with whom each was decided."""
    gate.batches.clear()
    answers = [batcher.submit(SKU, reserve("a"))]
    await asyncio.sleep(0)
    answers.append(batcher.submit(SKU, reserve("b")))
    await asyncio.wait_for(asyncio.gather(*answers), 30)
    return [_named(batch) for _, batch in gate.batches]


def _named(batch: list[Command]) -> list[str]:
    return [command.reservation_id for command in batch if isinstance(command, Reserve)]


async def told(gate: PacedGate, batcher: Batcher, verdict: Verdict) -> None:
    gate.answer = lambda _: verdict
    await batcher.submit(SKU, reserve("first"))


@pytest.mark.usefixtures("hands")
@pytest.mark.parametrize("verdict", [SOLD_OUT, Verdict(Outcome.ALL_HELD, available=0)])
async def test_those_who_come_to_an_empty_pool_share_a_batch(verdict: Verdict) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate)
    await told(gate, batcher, verdict)
    assert await batches_after(gate, batcher) == [["a", "b"]]


@pytest.mark.usefixtures("hands")
@pytest.mark.parametrize("outcome", [Outcome.RESERVED, Outcome.INSUFFICIENT, Outcome.PAUSED])
async def test_nobody_gathers_where_there_may_be_something(outcome: Outcome) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate)
    await told(gate, batcher, Verdict(outcome))
    assert await batches_after(gate, batcher) == [["a"], ["b"]]


async def test_who_comes_after_a_pause_does_not_wait(hands: dict[str, float]) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate)
    await told(gate, batcher, SOLD_OUT)
    hands["now"] += GATHER_S
    gate.batches.clear()
    answer = batcher.submit(SKU, reserve("a"))
    await asyncio.sleep(0)
    assert len(gate.batches) == 1
    await answer


@pytest.mark.usefixtures("hands")
@pytest.mark.parametrize("due_in_ms", [0, None])
async def test_nobody_gathers_when_a_unit_is_due_or_no_memory_is_wanted(due_in_ms: int | None) -> None:
    gate = PacedGate(at_once=True)
    batcher = Batcher(gate, cache_s=0.1 if due_in_ms is not None else 0)
    await told(gate, batcher, Verdict(Outcome.ALL_HELD, available=0, next_return_at=1, retry_after_ms=due_in_ms))
    assert await batches_after(gate, batcher) == [["a"], ["b"]]
