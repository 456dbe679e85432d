"""Joins and look-ups of a buyer's own place as the queue grows. Places are kept in the ledger on every engine.

The queue is filled with the join queue's own statements, in large batches. Buyers who join during a measurement leave
again, so that the length stays constant.
"""

import asyncio
import itertools
import secrets
from collections.abc import Callable
from random import Random

from sqlalchemy import Connection

from holdfast.domain.room.room import Join, Leave, Place, RoomState
from holdfast.lab.bench.growth.concurrency import values_of
from holdfast.lab.bench.growth.curves import Curve, Point
from holdfast.lab.bench.growth.sizes import sizes_to
from holdfast.lab.bench.growth.timing import middle_ms
from holdfast.lab.bench.measure.closed_loop import Attempt, LoopResult, closed_loop, spread_id
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.processes import memory_mb
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.queries import room_queries
from holdfast.ledger.room.rooms import find_room
from holdfast.room.join_queue import JoinQueue

WAITING = 256
PORTION = 5_000
# Enough samples that a batch rarely repeats one, spread over all portions.
KNOWN, KNOWN_OF_EACH = 1_000, 50
FILLED_PER_SECOND = 40_000
LOOKS = 200
_SALE = "line"


class QueueBench:
    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._database, self._runner = database, runner
        self._queries = room_queries(database.dialect_name)
        self._numbers = itertools.count(1)
        self._chance = Random(1)
        self._known: list[str] = []
        self._in_line = self._left = 0

    def curve(self, seconds: float, up_to: int, progress: Progress) -> Curve:
        points = []
        for size in sizes_to(up_to):
            with progress.step(f"filling to {size:,} queued", (size - self._in_line) / FILLED_PER_SECOND):
                self._runner.run(self._fill(size))
            with progress.step(f"{size:,} queued", 2 * seconds):
                points.append(Point(size, self._runner.run(self._measured(seconds))))
        about = f"joins and leaves, and look-ups of one's own place, by queue length, {WAITING} waiting"
        return Curve("line", about, "queue length", points)

    async def _fill(self, size: int) -> None:
        count = size - self._in_line
        for first in range(0, count, PORTION):
            asks = [self._join() for _ in range(min(PORTION, count - first))]
            await self._database.write(self._joining(asks))
            self._known += [ask.buyer_id for ask in asks[: max(KNOWN_OF_EACH, KNOWN - len(self._known))]]
        self._in_line = size

    def _joining(self, asks: list[Join]) -> Callable[[Connection], object]:
        return lambda connection: self._queries.apply(connection, _SALE, asks, self._database)

    def _join(self) -> Join:
        number = next(self._numbers)
        return Join(spread_id(number), secrets.token_urlsafe(16))

    async def _measured(self, seconds: float) -> dict[str, float]:
        join_queue = JoinQueue(self._database)
        joining = await self._joined_and_left(join_queue, seconds / 2)
        looking = await closed_loop(WAITING, seconds / 2, self._look_again(join_queue))
        values, looks = values_of(joining), values_of(looking)
        room_ms = await middle_ms(LOOKS, self._room)
        await self._check(joining.refused + looking.refused)
        more = {"again_per_second": looks["per_second"], "again_p99_ms": looks["p99_ms"]}
        return values | more | {"room_ms": round(room_ms, 3), "process_mb": memory_mb()}

    async def _joined_and_left(self, join_queue: JoinQueue, seconds: float) -> LoopResult:
        taken: list[Place | None] = [None] * WAITING

        async def attempt(client: int) -> bool:
            place = taken[client]
            if place is not None:
                taken[client] = None
                await self._leave(join_queue, place)
                return True
            taken[client] = (await join_queue.submit(_SALE, self._join())).place
            return taken[client] is not None

        result = await closed_loop(WAITING, seconds, attempt)
        await asyncio.gather(*[self._leave(join_queue, place) for place in taken if place is not None])
        return result

    async def _leave(self, join_queue: JoinQueue, place: Place) -> None:
        await join_queue.submit(_SALE, Leave(place.buyer_id, place.arrival, place.ticket_id))
        self._left += 1

    def _look_again(self, join_queue: JoinQueue) -> Attempt:
        async def attempt(_client: int) -> bool:
            ask = Join(self._chance.choice(self._known), "", only_again=True)
            return (await join_queue.submit(_SALE, ask)).place is not None

        return attempt

    async def _room(self) -> RoomState:
        """The row that holds the state of the queue."""
        room = await self._database.read(lambda c: find_room(c, _SALE))
        if room is None:
            raise BenchFailed("the queue is gone")
        return room

    async def _check(self, refused: int) -> None:
        joined, expected = (await self._room()).joined, self._in_line + self._left
        if refused or joined != expected:
            raise BenchFailed(f"{joined:,} have joined, {expected:,} should have, and {refused} were refused")
