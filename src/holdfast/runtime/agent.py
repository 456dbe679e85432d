"""Background work: one loop for every agent of a process.

The model. An agent makes a pass, rests, and makes the next, until the process stops. It rests for `interval_s`, or for
as long as `rest_s` says after a pass. A wake event ends a rest early, but not before `least_rest_s`: whatever is
announced meanwhile shares the next pass. Rests are jittered, so that processes started together do not stay in step.

What happens when it fails. A pass that raises is logged and counted, and the agent rests twice as long after each
failure in a row, up to `longest_backoff_s` ± 50 %, even if it is woken: this spares a store that is down, and one that
is back is used within a second. The loop survives every exception, so an agent that ends on its own is a defect that
could go unnoticed: units would stop returning while everything else works. So it is logged, and the process is no
longer ready.

Health. Each agent exports when it last succeeded and how often it failed (`holdfast_agent_*`). `trouble` names an agent
that ended, that keeps failing, or whose pass has not returned for `longest_pass_s`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Generic, TypeVar

import structlog

from holdfast.runtime import metrics
from holdfast.runtime.backoff import exponential_ms, jittered
from holdfast.runtime.log import log_failure

log = structlog.get_logger()

JITTER = 0.05
# With jitter at most 0.9 s, whatever the interval is.
LONGEST_BACKOFF_S = 0.6
# A pass waits for stores and providers, all of which have shorter timeouts. Thorough checks are given more.
LONGEST_PASS_S = 10.0
THOROUGH_PASS_S = 120.0
# One or two failures are ordinary: a deadlock, a connection that was closed.
FAILURES_MIN = 3
# A cancelled pass only has a connection to give back.
STOP_S = 1.0

Done = TypeVar("Done")


class Agent(Generic[Done]):
    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[Done]],
        interval_s: float,
        *,
        rest_s: Callable[[Done], float] | None = None,
        wake: asyncio.Event | None = None,
        least_rest_s: float = 0.0,
        jitter: float = JITTER,
        rests_first: bool = False,
        longest_backoff_s: float = LONGEST_BACKOFF_S,
        longest_pass_s: float = LONGEST_PASS_S,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`work` makes one pass, `rest_s` says how long to rest after its result, and `close` is called at the end."""
        self.name = name
        self.failures = 0
        self._work = work
        self._interval_s = interval_s
        self._rest_s = rest_s
        self._wake = wake
        self._least_rest_s = least_rest_s
        self._jitter = jitter
        self._rests_first = rests_first
        self._longest_backoff_s = longest_backoff_s
        self._longest_pass_s = longest_pass_s
        self._pass_began_at: float | None = None
        self._close = close
        self._succeeded = metrics.AGENT_LAST_SUCCESS.labels(name)
        self._failed = metrics.AGENT_FAILURES.labels(name)

    async def run(self) -> None:
        try:
            if self._rests_first:
                await self._rest(self._interval_s)
            while True:
                await self._pass_and_rest()
        finally:
            if self._close is not None:
                await self._close()

    @property
    def trouble(self) -> str | None:
        if self._pass_began_at is not None and monotonic() - self._pass_began_at > self._longest_pass_s:
            return "hanging"
        return "failing" if self.failures >= FAILURES_MIN else None

    async def _pass_and_rest(self) -> None:
        try:
            done = await self._pass()
        except Exception as exc:
            self.failures += 1
            self._failed.inc()
            log_failure("agent_pass_failed", exc, agent=self.name, failures=self.failures)
            await asyncio.sleep(self._backoff_s())
            return
        self.failures = 0
        self._succeeded.set_to_current_time()
        await self._rest(self._interval_s if self._rest_s is None else self._rest_s(done))

    async def _pass(self) -> Done:
        self._pass_began_at = monotonic()
        try:
            return await self._work()
        finally:
            self._pass_began_at = None

    def _backoff_s(self) -> float:
        first_ms, longest_ms = round(self._interval_s * 1000), round(self._longest_backoff_s * 1000)
        return exponential_ms(self.failures, first_ms, longest_ms) / 1000

    async def _rest(self, seconds: float) -> None:
        seconds = jittered(seconds, self._jitter)
        if self._wake is None:
            await asyncio.sleep(seconds)
            return
        least_s = min(self._least_rest_s, seconds)
        await asyncio.sleep(least_s)
        # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with the wake event.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - least_s):
                await self._wake.wait()
        self._wake.clear()


class Agents:
    def __init__(self) -> None:
        self._agents: list[tuple[Agent[Any], asyncio.Task[None]]] = []
        self._stopping = False
        self.first_end = asyncio.Event()

    def start(self, agent: Agent[Any]) -> None:
        task = asyncio.create_task(agent.run(), name=agent.name)
        task.add_done_callback(self._notice_end)
        self._agents.append((agent, task))

    @property
    def names(self) -> list[str]:
        return [agent.name for agent, _ in self._agents]

    @property
    def ended(self) -> list[str]:
        """Agents that ended without being stopped."""
        return [] if self._stopping else [agent.name for agent, task in self._agents if task.done()]

    @property
    def failing(self) -> dict[str, int]:
        """Agents whose last passes failed, and how many in a row."""
        return {agent.name: agent.failures for agent, _ in self._agents if agent.failures}

    @property
    def troubles(self) -> dict[str, str | None]:
        """The trouble of every agent; None for one that works."""
        return {agent.name: "stopped" if task.done() else agent.trouble for agent, task in self._agents}

    def _notice_end(self, task: "asyncio.Task[None]") -> None:
        if not self._stopping:
            exc = None if task.cancelled() else task.exception()
            log.error("background_task_stopped", agent=task.get_name(), exc_info=exc)
            self.first_end.set()

    async def stop(self) -> None:
        self._stopping = True
        tasks = [task for _, task in self._agents]
        for task in tasks:
            task.cancel()
        if tasks:
            # An agent that waits for a store that does not answer ends with the process.
            await asyncio.wait(tasks, timeout=STOP_S)
