"""Joins, and looks at one's own place, while the line grows. Places are kept in the ledger whatever the engine is.

The line is filled by the desk's own statements, in large batches. Who joins while it is measured leaves again, so that
as many stay in line as there were.
"""

import asyncio
import itertools
import secrets
from collections.abc import Callable
from random import Random

from sqlalchemy import Connection

from holdfast.bench.crowd import Attempt, Crowd, closed_loop
from holdfast.bench.failure import BenchFailed
from holdfast.bench.growth.breadth import values_of
from holdfast.bench.growth.curves import Curve, Point
from holdfast.bench.growth.sizes import sizes_to
from holdfast.bench.growth.timing import middle_ms
from holdfast.bench.processes import memory_mb
from holdfast.bench.progress import Progress
from holdfast.domain.room import Join, Leave, Place, RoomState
from holdfast.ledger.database import Database
from holdfast.ledger.room_queries import RoomQueries
from holdfast.ledger.rooms import find_room
from holdfast.room.desk import Desk

WAITING = 256
PORTION = 5_000
# So many are looked up at random that hardly two in a batch are the same; and some of each portion, to be everywhere.
KNOWN, KNOWN_OF_EACH = 1_000, 50
FILLED_PER_SECOND = 40_000
LOOKS = 200
_SALE = "line"


class LineBench:
    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._database, self._runner = database, runner
        self._queries = RoomQueries(database.dialect_name)
        self._numbers = itertools.count(1)
        self._chance = Random(1)
        self._known: list[str] = []
        self._in_line = self._left = 0

    def curve(self, seconds: float, up_to: int, progress: Progress) -> Curve:
        points = []
        for size in sizes_to(up_to):
            with progress.step(f"filling to {size:,} in line", (size - self._in_line) / FILLED_PER_SECOND):
                self._runner.run(self._fill(size))
            with progress.step(f"{size:,} in line", 2 * seconds):
                points.append(Point(size, self._runner.run(self._measured(seconds))))
        about = f"people in line: who joins and leaves, and who looks at their place again, {WAITING} waiting"
        return Curve("line", about, "people in line", points)

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
        return Join(f"{number * 7919 % 1_000_003}-{number}", secrets.token_urlsafe(16))

    async def _measured(self, seconds: float) -> dict[str, float]:
        desk = Desk(self._database)
        joining = await self._joined_and_left(desk, seconds / 2)
        looking = await closed_loop(WAITING, seconds / 2, self._look_again(desk))
        values, looks = values_of(joining), values_of(looking)
        room_ms = await middle_ms(LOOKS, self._room)
        await self._check(joining.refused + looking.refused)
        more = {"again_per_second": looks["per_second"], "again_p99_ms": looks["p99_ms"]}
        return values | more | {"room_ms": round(room_ms, 3), "process_mb": memory_mb()}

    async def _joined_and_left(self, desk: Desk, seconds: float) -> Crowd:
        taken: list[Place | None] = [None] * WAITING

        async def attempt(client: int) -> bool:
            place = taken[client]
            if place is not None:
                taken[client] = None
                await self._leave(desk, place)
                return True
            taken[client] = (await desk.submit(_SALE, self._join())).place
            return taken[client] is not None

        crowd = await closed_loop(WAITING, seconds, attempt)
        await asyncio.gather(*[self._leave(desk, place) for place in taken if place is not None])
        return crowd

    async def _leave(self, desk: Desk, place: Place) -> None:
        await desk.submit(_SALE, Leave(place.buyer_id, place.arrival, place.ticket_id))
        self._left += 1

    def _look_again(self, desk: Desk) -> Attempt:
        async def attempt(_client: int) -> bool:
            ask = Join(self._chance.choice(self._known), "", only_again=True)
            return (await desk.submit(_SALE, ask)).place is not None

        return attempt

    async def _room(self) -> RoomState:
        """What whoever asks how the line stands is told from."""
        room = await self._database.read(lambda c: find_room(c, _SALE))
        if room is None:
            raise BenchFailed("the line is gone")
        return room

    async def _check(self, refused: int) -> None:
        joined, expected = (await self._room()).joined, self._in_line + self._left
        if refused or joined != expected:
            raise BenchFailed(f"{joined:,} have joined, {expected:,} should have, and {refused} were refused")
