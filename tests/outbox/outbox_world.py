"""A gate whose events go out: on a real database, to real receivers, by the real clock."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import select

from holdfast.domain.stock.command import Command, Move, Provision, Transition
from holdfast.gate.sql import SqlGate
from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.deliveries import Delivery, list_deliveries
from holdfast.ledger.events.webhooks import Webhook, create_webhook, find_webhook, latest_seq
from holdfast.ledger.tables.webhooks import deliveries
from holdfast.testing.states import reserve
from holdfast.webhooks.deliverer import Deliverer
from holdfast.webhooks.relay import Relay
from holdfast.webhooks.sender import Sender

SKU = "sneaker"
QUICK_S = (0.02, 0.02, 0.05, 0.05, 0.1, 0.1, 0.2, 0.2, 0.5, 0.5)
LIFE = ["reservation.created", "reservation.settling", "reservation.confirmed"]


class OutboxWorld:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.gate = SqlGate(database)
        self.relay = Relay(database)
        self._numbers = itertools.count(1)

    async def add(self, url: str, *patterns: str) -> Webhook:
        def work(connection: Any) -> Webhook:
            return create_webhook(connection, url, patterns or ("*",), None, self.database.now_ms(connection))

        return await self.database.write(work)

    async def found(self, webhook: Webhook) -> Webhook:
        found = await self.database.read(lambda c: find_webhook(c, webhook.webhook_id))
        assert found is not None
        return found

    async def stock(self, units: int = 1_000) -> None:
        await self.gate.apply(SKU, [Provision(units)])

    async def live(self, lives: int = 1) -> list[str]:
        """So many reservations from their beginning to their end, step by step, all of them together."""
        ids = [f"rsv_{next(self._numbers):032}_{SKU}" for _ in range(lives)]
        steps: list[Sequence[Command]] = [
            [reserve(id_, f"owner-{id_[4:36]}") for id_ in ids],
            [Move(Transition.SETTLE, id_) for id_ in ids],
            [Move(Transition.CONFIRM, id_) for id_ in ids],
        ]
        for step in steps:
            await self.gate.apply(SKU, step)
        return ids

    async def relay_all(self) -> None:
        """Relay everything that happened so far. Servers of other tests write to the same PostgreSQL, and a relay holds
        back what happened during a transaction that is still open, so one pass may not be enough."""
        seq = await self.database.read(latest_seq)

        async def is_relayed() -> bool:
            return not await self.relay.pass_once() or self.relay._horizon._seq >= seq

        await self.until(is_relayed)

    async def log(self, webhook: Webhook) -> list[Delivery]:
        """Oldest first."""
        page, _ = await self.database.read(lambda c: list_deliveries(c, webhook.webhook_id, limit=10_000))
        return page[::-1]

    async def states(self, webhook: Webhook) -> list[str]:
        return [delivery.state for delivery in await self.log(webhook)]

    async def until(self, seen: Callable[[], Awaitable[bool]]) -> None:
        """Wait for what another task writes down, which raises no event here."""
        async with asyncio.timeout(60):
            while not await seen():  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.01)

    async def until_nothing_waits(self) -> None:
        waiting = select(deliveries.c.seq).where(deliveries.c.state == "waiting").limit(1)

        async def seen() -> bool:
            return await self.database.read(lambda c: c.execute(waiting).first()) is None

        await self.until(seen)

    @asynccontextmanager
    async def delivering(
        self,
        *,
        delays_s: Sequence[float] = QUICK_S,
        timeout_s: float = 60.0,
        parallel: int = 32,
        checkpoint: Checkpoint | None = None,
    ) -> AsyncIterator[Deliverer]:
        sender = Sender(private=True, timeout_s=timeout_s, checkpoint=lambda: checkpoint)
        deliverer = Deliverer(self.database, sender, delays_s=delays_s, parallel=parallel)
        task = asyncio.create_task(deliverer.agent().run())
        try:
            yield deliverer
        finally:
            task.cancel()
            await asyncio.wait([task])
