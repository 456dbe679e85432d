"""Creates deliveries from events, one for each subscribed webhook.

Deliveries are written in the transaction that advances the webhook's position, so each event becomes exactly one
delivery, whatever crashes. Several relays may run: they skip webhooks that another one is processing.
"""

from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from holdfast.ledger.chain.horizon import Horizon, Seen, horizon_queries
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.cloud_event import encode_event
from holdfast.ledger.events.event_facts import FindTraces
from holdfast.ledger.events.outbox import OutboxQueries, outbox_queries
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent

PASS_INTERVAL_S = 0.1
# Without webhooks. A new webhook starts with the events after its creation, so a longer pause loses nothing.
IDLE_INTERVAL_S = 1.0


class Relay:
    def __init__(
        self, database: Database, wake: Callable[[], None] = lambda: None, find_traces: FindTraces | None = None
    ) -> None:
        self._database = database
        self._wake = wake
        dialect = database.dialect_name
        self._queries = outbox_queries(dialect) if find_traces is None else OutboxQueries(dialect, find_traces)
        self._horizon, self._seen = Horizon(), horizon_queries(database.dialect_name)

    def agent(self) -> Agent[bool]:
        return Agent(
            "relay", self.pass_once, PASS_INTERVAL_S, rest_s=lambda any_: PASS_INTERVAL_S if any_ else IDLE_INTERVAL_S
        )

    async def pass_once(self) -> bool:
        """Bring every webhook up to the horizon. False if there are no webhooks."""
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
        return positions, self._seen.look(connection, self._horizon.known) if positions else None

    async def _bring_up(self, position: int, upto: int) -> None:
        while position < upto:
            position = await self._database.write(partial(self._relay, position, upto))
            self._wake()

    def _relay(self, position: int, upto: int, connection: Connection) -> int:
        return self._queries.relay(connection, position, upto, self._database.now_ms(connection), encode_event)
