"""The loop of background agents: when it rests, when it wakes, what it does about failures."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog

from holdfast.errors import Unavailable
from holdfast.runtime import metrics
from holdfast.runtime.agent import LONGEST_BACKOFF_S, Agent, Agents
from virtual_time import in_virtual_time


class Passes:
    """Work that notes when it was done, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.at: list[float] = []
        self._failures = failures

    async def __call__(self) -> int:
        self.at.append(round(asyncio.get_running_loop().time(), 3))
        if len(self.at) <= self._failures:
            raise Unavailable("down")
        return len(self.at)


async def run_for(seconds: float, agent: Agent[Any], meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
    task = asyncio.create_task(agent.run())
    if meanwhile is not None:
        await meanwhile()
    await asyncio.sleep(seconds - asyncio.get_running_loop().time())
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.backoff.random.uniform", lambda least, most: (least + most) / 2)


@in_virtual_time
async def test_it_makes_a_pass_at_once_and_then_one_per_interval() -> None:
    passes = Passes()
    await run_for(3.5, Agent("a", passes, 1.0))
    assert passes.at == [0.0, 1.0, 2.0, 3.0]


@in_virtual_time
async def test_it_can_rest_before_the_first_pass() -> None:
    passes = Passes()
    await run_for(2.5, Agent("a", passes, 1.0, rests_first=True))
    assert passes.at == [1.0, 2.0]


@in_virtual_time
async def test_what_a_pass_returned_can_say_how_long_to_rest() -> None:
    passes = Passes()
    await run_for(7.0, Agent("a", passes, 1.0, rest_s=lambda done: 2.0 * done))
    assert passes.at == [0.0, 2.0, 6.0]


@in_virtual_time
async def test_a_wake_event_ends_a_rest_but_not_before_the_least() -> None:
    passes, wake = Passes(), asyncio.Event()

    async def wake_twice() -> None:
        for at in (0.1, 2.5):
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            wake.set()

    await run_for(12.0, Agent("a", passes, 10.0, wake=wake, least_rest_s=1.0), wake_twice)
    assert passes.at == [0.0, 1.0, 2.5]


@in_virtual_time
async def test_failures_in_a_row_lengthen_the_rest_up_to_a_limit_and_a_success_ends_that() -> None:
    passes = Passes(failures=5)
    await run_for(4.0, Agent("a", passes, 0.2))
    rests = [round(later - earlier, 3) for earlier, later in zip(passes.at, passes.at[1:], strict=False)]
    assert rests[:6] == [0.2, 0.4, LONGEST_BACKOFF_S, LONGEST_BACKOFF_S, LONGEST_BACKOFF_S, 0.2]


@in_virtual_time
async def test_a_wake_event_does_not_shorten_the_rest_after_a_failure() -> None:
    passes, wake = Passes(failures=1), asyncio.Event()
    wake.set()
    await run_for(1.5, Agent("a", passes, 1.0, wake=wake))
    assert passes.at == [0.0, LONGEST_BACKOFF_S, LONGEST_BACKOFF_S]


@in_virtual_time
async def test_health_is_exported_by_agent() -> None:
    failed = metrics.AGENT_FAILURES.labels("exported")._value
    succeeded = metrics.AGENT_LAST_SUCCESS.labels("exported")._value
    before = failed.get()
    agents = Agents()
    with structlog.testing.capture_logs() as logged:
        agents.start(Agent("exported", Passes(failures=2), 0.2))
        await asyncio.sleep(0.3)
        assert (agents.failing, succeeded.get()) == ({"exported": 2}, 0.0)
        await asyncio.sleep(2.0)
        assert (agents.failing, agents.ended, agents.names) == ({}, [], ["exported"])
    await agents.stop()
    assert failed.get() - before == 2
    assert succeeded.get() > 0
    assert [(line["event"], line["agent"], line["failures"]) for line in logged] == [
        ("agent_pass_failed", "exported", 1),
        ("agent_pass_failed", "exported", 2),
    ]


@in_virtual_time
async def test_an_agent_that_is_stopped_closes_what_it_opened() -> None:
    closed = asyncio.Event()

    async def close() -> None:
        closed.set()

    agents = Agents()
    agents.start(Agent("a", Passes(), 1.0, close=close))
    await asyncio.sleep(0.5)
    await agents.stop()
    assert closed.is_set()
