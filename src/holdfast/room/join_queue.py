"""Joins, admissions, uses and leaves of a sale's waiting room, in batches, each durable when it is answered."""

import asyncio
from collections.abc import Sequence
from functools import partial
from math import inf

from sqlalchemy import Connection

from holdfast.domain.room.room import Join, Leave, RoomAsk, Stand, Use
from holdfast.errors import Busy
from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.queries import room_queries
from holdfast.ledger.room.single_statement_join import SingleStatementJoin
from holdfast.room.wakeup import Wakeup
from holdfast.runtime import metrics
from holdfast.runtime.batching import KeyedBatcher, log_failed_batch

# Each try waits until the queue's timeout. Together that is half a minute, in which a crowd that arrives at once joins.
NOTES_MORE_TRIES, NOTE_AGAIN_S = 10, 1.0


class JoinQueue(KeyedBatcher[RoomAsk, Stand]):
    def __init__(
        self,
        database: Database,
        wakeup: Wakeup | None = None,
        *,
        batch_max: int = 512,
        queue_max: int = 8192,
        timeout_s: float = 2.0,
    ) -> None:
        super().__init__(
            self._work,
            batch_max=batch_max,
            queue_max=queue_max,
            timeout_s=timeout_s,
            on_failure=log_failed_batch,
            on_drop=metrics.count_drop,
        )
        self._database = database
        self._wakeup = wakeup or Wakeup()
        self._queries = room_queries(database.dialect_name)
        self._single_statement = None if database.dialect_name == "sqlite" else SingleStatementJoin()

    async def _work(self, sale_id: str, asks: Sequence[RoomAsk], /) -> list[Stand]:
        order = _by_arrival(asks)
        if order is not None:
            stands = await self._work_in_order(sale_id, [asks[number] for number in order])
            answered = dict(zip(order, stands, strict=True))
            return [answered[number] for number in range(len(asks))]
        return await self._work_in_order(sale_id, asks)

    async def _work_in_order(self, sale_id: str, asks: Sequence[RoomAsk]) -> list[Stand]:
        stands = await self._join_single_statement(sale_id, asks)
        if stands is None:
            stands = await self._database.write(partial(self._answer, sale_id, asks), brief=True)
        self._wakeup.wake()
        return stands

    async def _join_single_statement(self, sale_id: str, asks: Sequence[RoomAsk]) -> list[Stand] | None:
        joins = None if self._single_statement is None else self._single_statement.joins_in(asks)
        if self._single_statement is None or joins is None:
            return None
        now = self._database.known_now_ms()
        return await self._database.write(partial(self._single_statement.join, sale_id, joins, now), autocommit=True)

    def _answer(self, sale_id: str, asks: Sequence[RoomAsk], connection: Connection) -> list[Stand]:
        return self._queries.apply(connection, sale_id, asks, self._database)

    def note_use(self, sale_id: str, use: Use, more_tries: int = NOTES_MORE_TRIES) -> None:
        """No caller waits for it, so a use that was dropped under load is recorded again a moment later. A lost use
        would reserve a unit in the pace for a buyer who has bought, until their pass expires."""
        try:
            noted = self.submit(sale_id, use)
        except Busy:
            self._note_later(sale_id, use, more_tries)
            return
        noted.add_done_callback(partial(self._note_again_if_dropped, sale_id, use, more_tries))

    def _note_again_if_dropped(self, sale_id: str, use: Use, more_tries: int, answer: "asyncio.Future[Stand]") -> None:
        """Record again only what was certainly not processed. Any other failure has been logged."""
        if not answer.cancelled() and isinstance(answer.exception(), Busy):
            self._note_later(sale_id, use, more_tries)

    def _note_later(self, sale_id: str, use: Use, more_tries: int) -> None:
        if more_tries:
            asyncio.get_running_loop().call_later(NOTE_AGAIN_S, self.note_use, sale_id, use, more_tries - 1)


def _by_arrival(asks: Sequence[RoomAsk]) -> list[int] | None:
    """The numbers of the requests with joins in order of their stamps, or None if they are in order. A batch in which
    somebody leaves stays as it is: they may join again in it."""
    joins = [number for number, ask in enumerate(asks) if isinstance(ask, Join)]
    stamps = [_stamp(asks[number]) for number in joins]
    if stamps == sorted(stamps) or any(isinstance(ask, Leave) for ask in asks):
        return None
    order = list(range(len(asks)))
    for number, earliest in zip(joins, sorted(joins, key=lambda number: _stamp(asks[number])), strict=True):
        order[number] = earliest
    return order


def _stamp(ask: RoomAsk) -> float:
    return inf if not isinstance(ask, Join) or ask.arrived_at is None else ask.arrived_at
