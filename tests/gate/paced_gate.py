"""A gate that takes its time, for as long as the test wants."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast.domain.stock.command import Command, Verdict
from holdfast.domain.stock.outcome import Outcome

Answer = Callable[[Command], Verdict]


class PacedGate:
    """Batches are told in `batches` when they arrive, and answered once the test lets them go."""

    def __init__(self, answer: Answer = lambda _: Verdict(Outcome.RESERVED), *, at_once: bool = False) -> None:
        self.batches: list[tuple[str, list[Command]]] = []
        self.answer = answer
        self.failure: Exception | None = None
        self._arrived = asyncio.Semaphore(0)
        self._may_go = asyncio.Semaphore(10_000 if at_once else 0)

    async def arrival(self) -> list[Command]:
        """Wait for the next batch to arrive."""
        await asyncio.wait_for(self._arrived.acquire(), 60)
        return self.batches[-1][1]

    def release(self, batches: int = 1) -> None:
        for _ in range(batches):
            self._may_go.release()

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        self.batches.append((sku_id, list(commands)))
        self._arrived.release()
        await self._may_go.acquire()
        if self.failure is not None:
            raise self.failure
        return [self.answer(command) for command in commands]


class OneAtATime:
    """An engine that serves all pools in turn, first come, first served, as SQLite's one writer does."""

    def __init__(self, gate: PacedGate) -> None:
        self._gate = gate
        self._turn = asyncio.Lock()

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        async with self._turn:
            return await self._gate.apply(sku_id, commands)
