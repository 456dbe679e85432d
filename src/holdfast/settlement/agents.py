"""The background work of a process: each agent runs until it is told to stop.

An agent survives every failure of what it does, so one that ends by itself is a defect. Nobody would miss it: units
would stop returning while everything else goes on. So it is logged, and the process no longer calls itself ready.
"""

import asyncio
from collections.abc import Coroutine

import structlog

log = structlog.get_logger()

# A pass that is called off has a connection to give back, no more.
STOP_S = 1.0


class Agents:
    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.first_end = asyncio.Event()

    def start(self, name: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._notice)
        self._tasks.append(task)

    @property
    def names(self) -> list[str]:
        return [task.get_name() for task in self._tasks]

    @property
    def ended(self) -> list[str]:
        """Those that ended though nobody told them to."""
        return [] if self._stopping else [task.get_name() for task in self._tasks if task.done()]

    def _notice(self, task: "asyncio.Task[None]") -> None:
        if not self._stopping:
            log.error("agent_ended", agent=task.get_name(), exc_info=None if task.cancelled() else task.exception())
            self.first_end.set()

    async def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # One that waits for an engine that does not answer is left to the end of the process.
            await asyncio.wait(self._tasks, timeout=STOP_S)
