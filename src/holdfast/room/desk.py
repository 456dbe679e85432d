"""The room's desk: joins, admissions, uses and leaves of a sale, in batches, each durable when it is answered."""

import asyncio
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection

from holdfast.domain.room import RoomAsk, Stand, Use
from holdfast.errors import Busy
from holdfast.gate.lines import Lines
from holdfast.ledger.database import Database
from holdfast.ledger.join_at_once import JoinAtOnce
from holdfast.ledger.room_queries import RoomQueries
from holdfast.room.bell import Bell

# Each waits for as long as the desk's patience lasts: half a minute together, in which a crowd that comes all at once
# has joined.
NOTES_MORE_TRIES, NOTE_AGAIN_S = 10, 1.0


class Desk(Lines[RoomAsk, Stand]):
    def __init__(
        self,
        database: Database,
        bell: Bell | None = None,
        *,
        batch_max: int = 512,
        line_max: int = 8192,
        patience_s: float = 2.0,
    ) -> None:
        super().__init__(self._work, batch_max=batch_max, line_max=line_max, patience_s=patience_s)
        self._database = database
        self._bell = bell or Bell()
        self._queries = RoomQueries(database.dialect_name)
        self._at_once = None if database.dialect_name == "sqlite" else JoinAtOnce()

    async def _work(self, sale_id: str, asks: Sequence[RoomAsk], /) -> list[Stand]:
        stands = await self._join_at_once(sale_id, asks)
        if stands is None:
            stands = await self._database.write(partial(self._answer, sale_id, asks), brief=True)
        self._bell.ring()
        return stands

    async def _join_at_once(self, sale_id: str, asks: Sequence[RoomAsk]) -> list[Stand] | None:
        joins = None if self._at_once is None else self._at_once.joins_in(asks)
        if self._at_once is None or joins is None:
            return None
        now = self._database.known_now_ms()
        return await self._database.write(partial(self._at_once.join, sale_id, joins, now), at_once=True)

    def _answer(self, sale_id: str, asks: Sequence[RoomAsk], connection: Connection) -> list[Stand]:
        return self._queries.apply(connection, sale_id, asks, self._database)

    def note_use(self, sale_id: str, use: Use, more_tries: int = NOTES_MORE_TRIES) -> None:
        """Nobody waits for it, so it has time: one that was dropped under load is noted again a moment later. One that
        is lost makes the pace keep a unit for a buyer who has bought, until their pass is over."""
        try:
            noted = self.submit(sale_id, use)
        except Busy:
            self._note_later(sale_id, use, more_tries)
            return
        noted.add_done_callback(partial(self._hear, sale_id, use, more_tries))

    def _hear(self, sale_id: str, use: Use, more_tries: int, answer: "asyncio.Future[Stand]") -> None:
        """Only what was surely not worked on is noted again. Any other failure the line has logged."""
        if not answer.cancelled() and isinstance(answer.exception(), Busy):
            self._note_later(sale_id, use, more_tries)

    def _note_later(self, sale_id: str, use: Use, more_tries: int) -> None:
        if more_tries:
            asyncio.get_running_loop().call_later(NOTE_AGAIN_S, self.note_use, sale_id, use, more_tries - 1)
