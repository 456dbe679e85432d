"""Sends deliveries: at least once, and in order per reservation.

The model. For each subject (a reservation, a pool, a sale) only the first waiting delivery may be leased. The next one
follows when it is done or parked. Different subjects and different webhooks are sent in parallel. The number of
concurrent deliveries per webhook is limited, so that a hanging receiver does not delay others. One transaction stores
all results since the last one and leases what is due next, as the gate does with commands.

What happens when it fails. A process that dies after sending and before storing the result leaves a lease, which
expires. Then the delivery is sent again with the same `webhook-id`, by which the receiver recognises it. A process that
slept past its lease does not send any more, and its writes are fenced off.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from time import monotonic

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.deliveries import Delivery, Result, anything_due, finish, lease
from holdfast.ledger.events.webhooks import Webhook, disable_webhooks, list_webhooks
from holdfast.runtime import metrics
from holdfast.runtime.agent import Agent
from holdfast.webhooks.retry import DELAYS_S, judge
from holdfast.webhooks.sender import SEND_TIMEOUT_S, Answer, Sender

PASS_INTERVAL_S = 1.0
# Results within this time are stored together.
GATHER_S = 0.02
# Longer than an attempt can take, with time to store its result.
LEASE_MS = round(SEND_TIMEOUT_S * 1000) + 10_000
# The connection pool scans all connections for each request, so more would cost more than they gain.
PARALLEL = 16


class Leased(Struct, frozen=True):
    now: int
    results: list[Result]
    work: list[tuple[Webhook, Delivery]]


class Deliverer:
    def __init__(
        self, database: Database, sender: Sender, *, delays_s: Sequence[float] = DELAYS_S, parallel: int = PARALLEL
    ) -> None:
        self._database = database
        self._sender = sender
        self._delays_s = delays_s
        self._parallel = parallel
        self._in_flight: Counter[str] = Counter()
        self._answers: list[tuple[Delivery, Answer]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Start a pass soon, because there are new deliveries."""
        self._wake.set()

    def agent(self) -> Agent[int]:
        return Agent(
            "deliverer", self.pass_once, PASS_INTERVAL_S, wake=self._wake, least_rest_s=GATHER_S, close=self._close
        )

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._sender.close()

    async def pass_once(self) -> int:
        """Store results, send what is due, and return how many were started."""
        answers, in_flight = list(self._answers), self._in_flight.copy()
        if not answers and not await self._database.read(self._is_due):
            return 0
        leased = await self._database.write(lambda c: self._settle_and_lease(c, answers, in_flight))
        # Only now: after a failure, the next pass has to store the results.
        del self._answers[: len(answers)]
        for result in leased.results:
            metrics.WEBHOOK_ATTEMPTS.labels(result.delivery.webhook_id, result.state).inc()
        until = monotonic() + (LEASE_MS / 1000 - SEND_TIMEOUT_S)
        for webhook, delivery in leased.work:
            self._start(webhook, delivery, leased.now, until)
        return len(leased.work)

    def _is_due(self, connection: Connection) -> bool:
        enabled = [hook.webhook_id for hook in list_webhooks(connection) if hook.disabled_at is None]
        return bool(enabled) and anything_due(connection, enabled, self._database.now_ms(connection))

    def _settle_and_lease(
        self, connection: Connection, answers: Sequence[tuple[Delivery, Answer]], in_flight: Counter[str]
    ) -> Leased:
        now = self._database.now_ms(connection)
        results = [judge(delivery, answer, now, self._delays_s) for delivery, answer in answers]
        gone = {result.delivery.webhook_id for result in results if result.gone}
        if gone:
            disable_webhooks(connection, gone, now)
        finish(connection, results, now)
        work = []
        for hook in list_webhooks(connection):
            free = self._parallel - in_flight[hook.webhook_id]
            if hook.disabled_at is None and free > 0:
                due = lease(connection, hook.webhook_id, now, now + LEASE_MS, limit=free)
                work += [(hook, delivery) for delivery in due]
        return Leased(now, results, work)

    def _start(self, webhook: Webhook, delivery: Delivery, now: int, until: float) -> None:
        self._in_flight[webhook.webhook_id] += 1
        task = asyncio.create_task(self._send(webhook, delivery, now, until))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, webhook: Webhook, delivery: Delivery, now: int, until: float) -> None:
        try:
            if monotonic() < until:
                self._answers.append((delivery, await self._sender.send(webhook, delivery, now)))
        finally:
            self._in_flight[webhook.webhook_id] -= 1
            self._wake.set()
