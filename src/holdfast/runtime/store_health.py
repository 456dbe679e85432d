"""Detects that a store does not answer before its callers time out.

The model. A frozen server does not refuse, it is silent, and a caller notices only when its own timeout expires. So one
timer watches all calls in flight. When the oldest has taken longer than SUSPECT_S and nothing has succeeded for as
long, or when one failed, the store is probed on a separate connection. A store that answers is merely busy, and nothing
happens. One that fails the probes is considered down: the breaker opens, the calls in flight are cancelled, and new
ones are refused at once, until a probe succeeds again. No caller's request serves as a probe.

The invariants: only failed probes, or several failures in a row, open the breaker; only a successful probe closes it;
while it is open, no call reaches the store.

When it fails. If this process itself was stopped for long, a probe may time out although the store is healthy: two must
fail, and the next one half a second later closes the breaker again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from holdfast.errors import EngineError, Unavailable
from holdfast.runtime import metrics
from holdfast.runtime.breaker import Breaker

log = structlog.get_logger()

SUSPECT_S = 0.5
# An overloaded server still accepts a connection within this time.
PROBE_S = 1.0
PROBES = 2
LOOK_S = 0.1
PAUSE_S = 0.25

# Checks the store; any error means that it is down.
Probe = Callable[[], Awaitable[object]]


class StoreHealth:
    def __init__(self, name: str, probe: Probe) -> None:
        self.breaker = Breaker(name, least_pause_ms=PAUSE_S * 1000, most_pause_ms=PAUSE_S * 1000)
        self._probe = probe
        self._under_way: dict[asyncio.Timeout, float] = {}
        self._succeeded_at = float("-inf")
        self._is_doubted = False
        self._looking: asyncio.Task[None] | None = None
        self._show()

    @asynccontextmanager
    async def call(self, timeout_s: float | None) -> AsyncIterator[None]:
        """Wraps every call. Raises `Unavailable` at once if the store is known to be down, or TimeoutError."""
        if not self.breaker.is_closed:
            raise Unavailable(f"{self.breaker.name} does not answer")
        async with asyncio.timeout(timeout_s) as scope:
            loop = asyncio.get_running_loop()
            self._under_way[scope] = loop.time()
            self._start_looking()
            try:
                yield
            finally:
                del self._under_way[scope]
        self._succeeded_at = loop.time()
        if self.breaker.is_closed:
            self.breaker.succeeded()

    def failed(self) -> None:
        """A call failed: probe the store now."""
        was_closed = self.breaker.is_closed
        self.breaker.failed(asyncio.get_running_loop().time() * 1000)
        if was_closed and not self.breaker.is_closed:
            self._give_up()
        self._is_doubted = True
        self._start_looking()

    def _start_looking(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        """Runs while there are calls in flight or doubts."""
        try:
            while self._under_way or self._is_doubted or not self.breaker.is_closed:
                if not self.breaker.is_closed:
                    await self._recover()
                elif self._is_suspect() and not await self._answers(PROBES):
                    self._give_up()
                self._is_doubted = False
                await asyncio.sleep(LOOK_S)
        finally:
            self._looking = None

    def _is_suspect(self) -> bool:
        oldest = min(self._under_way.values(), default=float("inf"))
        now = asyncio.get_running_loop().time()
        return self._is_doubted or now - max(oldest, self._succeeded_at) > SUSPECT_S

    async def _answers(self, probes: int) -> bool:
        for _ in range(probes):
            try:
                async with asyncio.timeout(PROBE_S):
                    await self._probe()
            except (EngineError, OSError, TimeoutError) as exc:
                log.warning("probe_failed", dependency=self.breaker.name, error=str(exc) or type(exc).__name__)
            else:
                self._succeeded_at = asyncio.get_running_loop().time()
                return True
        return False

    def _give_up(self) -> None:
        now = asyncio.get_running_loop().time()
        log.error("dependency_lost", dependency=self.breaker.name, cut_off=len(self._under_way))
        self.breaker.trip(now * 1000)
        self._show()
        for scope in self._under_way:
            if not scope.expired():
                scope.reschedule(now)

    async def _recover(self) -> None:
        await asyncio.sleep(PAUSE_S)
        if self.breaker.allows(asyncio.get_running_loop().time() * 1000):
            self._show()
            if await self._answers(1):
                log.info("dependency_back", dependency=self.breaker.name)
                self.breaker.succeeded()
            else:
                self.breaker.trip(asyncio.get_running_loop().time() * 1000)
            self._show()

    def _show(self) -> None:
        metrics.show_breaker(self.breaker)
