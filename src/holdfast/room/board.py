"""How every room stands, at hand in every process that serves buyers.

Read again a few times a second (while nobody is in a room, less often), in one query for all rooms, so that `now`, a
look at one's place and a wait for one's turn need none. With it goes out what this process sees of the gate's slowness,
for whoever sets the pace.
"""

import asyncio
import secrets
from collections.abc import Callable
from time import monotonic

import structlog
from sqlalchemy import Connection

from holdfast.domain.room import RoomState
from holdfast.errors import EngineError, Unavailable
from holdfast.ledger.database import Database
from holdfast.ledger.rooms import find_room, live_rooms, note_slowness
from holdfast.room.bell import EMPTY_S, QUIET_S, Bell

log = structlog.get_logger()

REFRESH_S = 0.25
# What is older tells nothing about whose turn it is.
TOO_OLD_S = 3.0
KEPT_MAX = 1_000


class Board:
    def __init__(self, database: Database, slowness_ms: Callable[[], dict[str, float]], bell: Bell) -> None:
        self._ear = bell.ear()
        self._database = database
        self._slowness_ms = slowness_ms
        self._process = secrets.token_hex(6)
        self._rooms: dict[str, RoomState] = {}
        self._live: list[RoomState] = []
        self._skus: set[str] = set()
        self._read_at = float("-inf")

    async def run(self) -> None:
        while True:
            try:
                await self.refresh()
            except EngineError as exc:
                log.warning("board_not_refreshed", error=str(exc))
            except Exception:
                log.exception("board_not_refreshed")
            await self._rest()

    async def _rest(self) -> None:
        if any(room.is_busy for room in self._live):
            await asyncio.sleep(REFRESH_S)
        else:
            await self._ear.rest(QUIET_S if self._live else EMPTY_S)

    async def refresh(self) -> None:
        asked = monotonic()
        found = await self._database.read(live_rooms)
        if len(self._rooms) > KEPT_MAX + len(found):
            self._rooms.clear()
        self._live = [one.room for one in found]
        self._rooms.update({room.sale_id: room for room in self._live})
        self._skus = {one.sale.sku_id for one in found}
        self._read_at = asked
        await self._tell_slowness()

    async def _tell_slowness(self) -> None:
        seen = [(sku_id, ms) for sku_id, ms in self._slowness_ms().items() if sku_id in self._skus]

        def note(connection: Connection) -> None:
            note_slowness(connection, self._process, seen, self._database.now_ms(connection))

        if seen:
            await self._database.write(note)

    def at_hand(self, sale_id: str) -> RoomState | None:
        """How it stood at the last look, however long ago that was."""
        return self._rooms.get(sale_id)

    async def find(self, sale_id: str) -> RoomState:
        """How it stands, a moment ago at most. Raises `Unavailable` if that is not known."""
        room = self._rooms.get(sale_id)
        if room is None:
            room = await self._database.read(lambda c: find_room(c, sale_id))
            if room is not None:
                self._rooms[sale_id] = room
        elif monotonic() - self._read_at > TOO_OLD_S:
            room = None
        if room is None:
            raise Unavailable("the room cannot be looked at now")
        return room
