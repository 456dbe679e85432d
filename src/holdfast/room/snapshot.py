"""Caches the state of every waiting room in each process that serves buyers.

It is read again a few times a second (less often while nobody waits), in one query for all rooms, so that `now`,
reading a place and waiting for a turn need no query. Each pass also stores the gate latency that this process
measures, which the line advancer uses to set the pace.

Only a purchase checks whether its pass was returned through another process meanwhile; concurrent purchases share one
read. SQLite has no other process.
"""

import secrets
from collections.abc import Callable, Sequence
from time import monotonic

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.room.room import RoomState
from holdfast.errors import Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.rooms import (
    LEFT_AT_ONCE,
    count_leaves,
    find_room,
    left_places,
    live_rooms,
    note_slowness,
    returned_passes,
)
from holdfast.room.wakeup import EMPTY_S, QUIET_S, Wakeup
from holdfast.runtime.agent import Agent
from holdfast.runtime.batching import ONE_QUEUE, KeyedBatcher

log = structlog.get_logger()

REFRESH_S = 0.25
# An older snapshot says nothing about whose turn it is.
TOO_OLD_S = 3.0
KEPT_MAX = 1_000
# Of purchases whose passes are looked up in one read.
CHECKS_MAX, QUEUE_MAX = 1_024, 65_536


class RoomSnapshot:
    def __init__(self, database: Database, slowness_ms: Callable[[], dict[str, float]], wakeup: Wakeup) -> None:
        self._wake = wakeup.subscribe()
        self._database = database
        self._slowness_ms = slowness_ms
        self._process = secrets.token_hex(6)
        self._rooms: dict[str, RoomState] = {}
        self._live: list[RoomState] = []
        self._skus: set[str] = set()
        self._returned: dict[str, None] = {}
        self._read_at = float("-inf")
        self._has_others = database.dialect_name != "sqlite"
        self._returns: KeyedBatcher[str, frozenset[str]] = KeyedBatcher(
            self._read_returned, batch_max=CHECKS_MAX, queue_max=QUEUE_MAX
        )

    def agent(self) -> Agent[None]:
        return Agent(
            "room_snapshot",
            self.refresh,
            REFRESH_S,
            rest_s=lambda _: self.rest_s(),
            wake=self._wake,
            least_rest_s=REFRESH_S,
        )

    def rest_s(self) -> float:
        if any(room.is_busy for room in self._live):
            return REFRESH_S
        return QUIET_S if self._live else EMPTY_S

    async def refresh(self) -> None:
        asked = monotonic()
        found = await self._database.read(live_rooms)
        rooms = await self._database.read(lambda c: [self._with_leaves(c, one.room) for one in found])
        if len(self._rooms) > KEPT_MAX + len(found):
            self._rooms.clear()
        self._live = rooms
        self._rooms.update({room.sale_id: room for room in self._live})
        self._skus = {sku_id for one in found for sku_id in one.sku_ids}
        self._read_at = asked
        await self._store_slowness()

    def _find(self, connection: Connection, sale_id: str) -> RoomState | None:
        room = find_room(connection, sale_id)
        return None if room is None else self._with_leaves(connection, room)

    def _with_leaves(self, connection: Connection, room: RoomState) -> RoomState:
        """Read again only if somebody left, or the cursor approaches the end of what was read."""
        if not room.leaves:
            return room
        known = self._rooms.get(room.sale_id)
        if known is None or not _has_same_leaves(known, room):
            returned = returned_passes(connection, room.sale_id, self._database.now_ms(connection))
            return replace(room, left_places=left_places(connection, room), returned_passes=returned)
        return replace(room, left_places=known.left_places, returned_passes=known.returned_passes)

    async def _store_slowness(self) -> None:
        seen = [(sku_id, ms) for sku_id, ms in self._slowness_ms().items() if sku_id in self._skus]

        def note(connection: Connection) -> None:
            note_slowness(connection, self._process, seen, self._database.now_ms(connection))

        if seen:
            await self._database.write(note)

    def cached(self, sale_id: str) -> RoomState | None:
        """The room at the last read, however long ago that was."""
        return self._rooms.get(sale_id)

    def return_pass(self, ticket_id: str) -> None:
        """Note that its holder left through this process."""
        if len(self._returned) >= KEPT_MAX:
            self._returned.pop(next(iter(self._returned)))
        self._returned[ticket_id] = None

    def is_returned(self, sale_id: str, ticket_id: str) -> bool:
        room = self._rooms.get(sale_id)
        return ticket_id in self._returned or (room is not None and ticket_id in room.returned_passes)

    async def was_returned(self, sale_id: str, ticket_id: str) -> bool:
        """Asks the ledger, because its holder may have left through another process. Redis mode sells without the
        ledger, too: then the last refresh decides."""
        if not self._has_others:
            return False
        try:
            return ticket_id in await self._returns.submit(ONE_QUEUE, sale_id)
        except Unavailable:
            return False

    async def _read_returned(self, _queue: str, sale_ids: Sequence[str], /) -> list[frozenset[str]]:
        def read(connection: Connection) -> dict[str, frozenset[str]]:
            return {sale_id: self._returned_in(connection, sale_id) for sale_id in set(sale_ids)}

        found = await self._database.lock_free_read(read)
        return [found[sale_id] for sale_id in sale_ids]

    def _returned_in(self, connection: Connection, sale_id: str) -> frozenset[str]:
        known = self._rooms.get(sale_id)
        if known is not None and known.leaves == count_leaves(connection, sale_id):
            return known.returned_passes
        return returned_passes(connection, sale_id, self._database.now_ms(connection))

    async def find(self, sale_id: str) -> RoomState:
        """A recent state of the room. Raises `Unavailable` if there is none."""
        room = self._rooms.get(sale_id)
        if room is None:
            room = await self._database.read(lambda c: self._find(c, sale_id))
            if room is not None:
                self._rooms[sale_id] = room
        elif monotonic() - self._read_at > TOO_OLD_S:
            room = None
        if room is None:
            raise Unavailable("the room cannot be read now")
        return room


def _has_same_leaves(known: RoomState, room: RoomState) -> bool:
    if (known.leaves, known.unlisted, known.seed) != (room.leaves, room.unlisted, room.seed):
        return False
    if not known.left_places and room.left:
        return False
    return len(known.left_places) < LEFT_AT_ONCE or known.serving == room.serving
