"""The faults that a visitor can trigger in a run. Each one ends on its own."""

import asyncio
from time import monotonic

from holdfast.errors import HoldfastError
from holdfast.lab.simulation.options import Engine, Fault
from holdfast.lab.simulation.server import ServerUnderTest, hold_write_lock
from holdfast.lab.simulation.shops.shop import Shops
from holdfast.lab.simulation.snapshot import FaultNote
from holdfast.lab.simulation.stores import Stores

REDIS_DOWN_S = 2.0
FREEZE_S = 4.0
# Enough to try every fault several times; more would only lengthen the list.
FAULTS_MAX = 20

_TEXTS = {
    (Fault.REDIS, Engine.REDIS): "Both Redis servers killed with kill -9; restarted after two seconds, the cache empty",
    (Fault.REDIS, Engine.SQLITE): "The shops' Redis killed with kill -9; restarted after two seconds, empty",
    (Fault.DATABASE, Engine.REDIS): "Every PostgreSQL process stopped for four seconds, the shops' SQL files locked",
    (Fault.DATABASE, Engine.SQLITE): "Every SQL file locked against writing for four seconds",
    (Fault.SERVER, Engine.REDIS): "Holdfast killed with kill -9 and started again",
    (Fault.SERVER, Engine.SQLITE): "Holdfast killed with kill -9 and started again",
}


class FaultRefused(HoldfastError):
    """The fault is already active, or cannot be triggered here."""


class Faults:
    def __init__(self, stores: Stores, server: ServerUnderTest, shops: Shops, engine: Engine) -> None:
        self._stores, self._server, self._shops, self._engine = stores, server, shops, engine
        self._began = monotonic()
        self._tasks: set[asyncio.Task[None]] = set()
        self.notes: list[FaultNote] = []

    def cause(self, fault: Fault) -> None:
        if fault is Fault.REDIS and not self._stores.has_valkey:
            raise FaultRefused("There is no Redis here: pip install 'holdfast[bench]'.")
        if any(note.fault is fault and not note.is_over for note in self.notes) or len(self.notes) >= FAULTS_MAX:
            raise FaultRefused("This fault has not ended yet.")
        note = FaultNote(fault, round(monotonic() - self._began, 1), _TEXTS[fault, self._engine])
        self.notes.append(note)
        task = asyncio.create_task(self._run(note))
        self._tasks.add(task)

    def restart_clock(self) -> None:
        """Restarts the clock when the first buyer arrives."""
        self._began = monotonic()

    async def ended(self) -> None:
        """Waits until all faults are over; raises the error of one that failed."""
        await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, note: FaultNote) -> None:
        ways = {Fault.REDIS: self._kill_redis, Fault.DATABASE: self._freeze, Fault.SERVER: self._server.restart}
        try:
            await ways[note.fault]()
        finally:
            note.is_over = True

    async def _kill_redis(self) -> None:
        await asyncio.to_thread(self._stores.kill_valkeys)
        try:
            await asyncio.sleep(REDIS_DOWN_S)
        finally:
            await asyncio.to_thread(self._stores.restart_valkeys)

    async def _freeze(self) -> None:
        files = [shop.book.file for shop in self._shops.all]
        await asyncio.gather(
            self._server.freeze_database(FREEZE_S), *(hold_write_lock(file, FREEZE_S) for file in files)
        )
