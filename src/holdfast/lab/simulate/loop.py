"""An event loop without a selector, threads or real time. When every task waits, the clock jumps to the next timer.

Callbacks run in the order they were scheduled, and every duration comes from the seed, so a run is a function of its
seed. Each simulated process is a `Host`, carried in the context of the tasks and callbacks that it starts. A crashed
host never runs again: its tasks stop where they are, without any cleanup. A paused host resumes later.
"""

import asyncio
import heapq
from asyncio import BaseEventLoop, Handle, TimerHandle
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

# More than any run needs; beyond this, something is spinning without time passing.
STEPS_MAX = 400_000


class Host:
    """A simulated process of the system, or the world that outlives all of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.paused_until = 0.0
        # Callbacks that became due during a pause.
        self.deferred: list[Handle] = []
        # The number of its callbacks that have run; crashes are planned by this.
        self.steps = 0
        self.crash_at: int | None = None
        self.on_crash: Callable[[], None] = lambda: None
        self.wall_step_ms = 0

    def crash(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self.on_crash()

    def context(self) -> Context:
        context = copy_context()
        context.run(HOST.set, self)
        return context


WORLD = Host("world")
HOST: ContextVar[Host] = ContextVar("HOST", default=WORLD)


class Stuck(Exception):
    """A deadlock (every task waits and no timer is set) or an endless loop."""


class SimulatedLoop(BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.steps = 0
        self.is_ending = False
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._number = 0
        self._left_behind: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        timer = TimerHandle(when, callback, args, self, context)
        self._push(when, timer)
        return timer

    def _push(self, when: float, timer: TimerHandle) -> None:
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, timer))

    def run_on(self, host: Host, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.create_task(work, context=host.context())

    def call_in_world(self, delay_s: float, callback: Callable[..., object], *args: Any) -> None:
        """Runs even if the process that scheduled it crashes."""
        self.call_at(self.now_s + delay_s, callback, *args, context=_WORLD_CONTEXT)

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """There are no threads, so the work runs immediately."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as exc:
            future.set_exception(exc)
        return future

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]
        if not ready:
            self._jump()
        else:
            self._dispatch(ready.popleft())

    def _jump(self) -> None:
        while self._timers:
            when, _, timer = heapq.heappop(self._timers)
            if not timer._cancelled:  # noqa: SLF001 - what asyncio's own loop reads
                self.now_s = max(self.now_s, when)
                self._dispatch(timer)
                return
        raise Stuck("every task waits, and nothing will ever happen")

    def _dispatch(self, handle: Handle) -> None:
        if handle._cancelled:  # noqa: SLF001
            return
        host = handle._context.get(HOST, WORLD)  # type: ignore[attr-defined]  # noqa: SLF001
        if host is not WORLD and not self.is_ending and not self._may_run(host, handle):
            return
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck(f"more than {STEPS_MAX:,} steps, at {self.now_s:.3f} s")
        handle._run()  # noqa: SLF001

    def _may_run(self, host: Host, handle: Handle) -> bool:
        if host.is_dead:
            return False
        if host.paused_until > self.now_s:
            if not host.deferred:
                self.call_in_world(host.paused_until - self.now_s, self.resume, host)
            host.deferred.append(handle)
            return False
        host.steps += 1
        if host.crash_at is not None and host.steps >= host.crash_at:
            host.crash_at = None
            # Keep a reference: if garbage-collected, its coroutines would still run their cleanup.
            self._left_behind += asyncio.all_tasks(self)
            host.crash()
            return False
        return True

    def resume(self, host: Host) -> None:
        if host.paused_until > self.now_s:
            self.call_in_world(host.paused_until - self.now_s, self.resume, host)
            return
        self._ready.extend(host.deferred)  # type: ignore[attr-defined]
        host.deferred.clear()

    def _write_to_self(self) -> None:
        """There is no selector to wake up."""

    def _timer_handle_cancelled(self, _handle: TimerHandle) -> None:
        """A cancelled timer is dropped when it becomes due."""

    def finish(self) -> None:
        """End every remaining task, including those of crashed processes, so that none is left to the garbage
        collector. Nothing they do now has any effect on a world."""
        self.is_ending = True
        self.steps = 0
        for _ in range(5):
            self._left_behind += asyncio.all_tasks(self)
            self._timers.clear()
            for task in asyncio.all_tasks(self):
                task.cancel()
            self.run_until_idle()
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
            with suppress(RuntimeError):
                task.get_coro().close()
        self._left_behind.clear()
        self.close()

    def run_until_idle(self) -> None:
        """Run ready callbacks without advancing time."""
        asyncio._set_running_loop(self)  # noqa: SLF001 - as `run_forever` does
        try:
            ready = self._ready  # type: ignore[attr-defined]
            while ready:
                self._dispatch(ready.popleft())
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001


_WORLD_CONTEXT = Context()
