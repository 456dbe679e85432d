"""Events become deliveries, one for each webhook that wants to hear of them.

The deliveries are written in the transaction that moves the webhook's position on, so each event becomes one exactly
once, whatever dies when. Several relays may run: they skip the webhooks that another is at.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from holdfast import metrics
from holdfast.ledger.database import Database
from holdfast.ledger.outbox import OutboxQueries, Seen
from holdfast.settlement.expire import tell as tell_failure
from holdfast.settlement.outbox.cloud_event import tell
from holdfast.settlement.outbox.horizon import Horizon

PASS_INTERVAL_S = 0.1
# Nobody listens: a new webhook hears of what happens after it was made, so it loses nothing in this time.
IDLE_INTERVAL_S = 1.0


class Relay:
    def __init__(self, database: Database, wake: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._wake = wake
        self._queries = OutboxQueries(database.dialect_name)
        self._horizon = Horizon()

    async def run(self) -> None:
        while True:
            pause_s = IDLE_INTERVAL_S
            try:
                pause_s = PASS_INTERVAL_S if await self.pass_once() else IDLE_INTERVAL_S
            except Exception as exc:
                tell_failure("relay_pass_failed", exc)
            await asyncio.sleep(pause_s)

    async def pass_once(self) -> bool:
        """Bring every webhook up to the horizon. False if there is none."""
        positions, seen = await self._database.read(self._look)
        if seen is None:
            return False
        upto = self._horizon.reached(seen)
        metrics.WEBHOOK_UNRELAYED.set(seen.seq - positions[0])
        for position in positions:
            await self._bring_up(position, upto)
        return True

    def _look(self, connection: Connection) -> tuple[list[int], Seen | None]:
        positions = self._queries.positions(connection)
        return positions, self._queries.look(connection) if positions else None

    async def _bring_up(self, position: int, upto: int) -> None:
        while position < upto:
            position = await self._database.write(partial(self._relay, position, upto))
            self._wake()

    def _relay(self, position: int, upto: int, connection: Connection) -> int:
        return self._queries.relay(connection, position, upto, self._database.now_ms(connection), tell)
