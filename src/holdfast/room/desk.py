"""The room's desk: joins, admissions, uses and leaves of a sale, in batches, each durable when it is answered."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import Connection

from holdfast.domain.room import RoomAsk, Stand, Use
from holdfast.errors import Busy
from holdfast.gate.lines import Lines
from holdfast.ledger.database import Database
from holdfast.ledger.room_batch import RoomQueries
from holdfast.room.bell import Bell


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

    async def _work(self, sale_id: str, asks: Sequence[RoomAsk], /) -> list[Stand]:
        stands = await self._database.write(partial(self._answer, sale_id, asks), brief=True)
        self._bell.ring()
        return stands

    def _answer(self, sale_id: str, asks: Sequence[RoomAsk], connection: Connection) -> list[Stand]:
        return self._queries.apply(connection, sale_id, asks, self._database.now_ms)

    def note_use(self, sale_id: str, use: Use) -> None:
        """Nobody waits for it. One that is lost makes the pace believe that a buyer did not buy, for a while."""
        with suppress(Busy):
            self.submit(sale_id, use).add_done_callback(_hear)


def _hear(answer: "asyncio.Future[Stand]") -> None:
    """So that asyncio does not complain of a failure, which the line has logged."""
    if not answer.cancelled():
        answer.exception()
