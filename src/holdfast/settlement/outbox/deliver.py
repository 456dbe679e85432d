"""Deliveries reach their receivers: at least once, and in order per reservation.

The model. Of each subject (a reservation, a pool, a sale) only the first delivery that waits may be leased; those
behind it go when it is done or parked. Different subjects and different webhooks go in parallel. Every webhook has so
many places and no more, so that one whose receiver hangs keeps nobody else waiting. One transaction writes down all
that came back since the last and leases what is due next, as the gate does with commands.

What happens when it fails. A process that dies after sending and before writing it down leaves a lease that runs out;
then the delivery goes out again under the same `webhook-id`, by which the receiver knows it. One that slept past its
lease does not send any more, and what it writes is fenced off.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from time import monotonic

from msgspec import Struct
from sqlalchemy import Connection

from holdfast import metrics
from holdfast.ledger.database import Database
from holdfast.ledger.deliveries import Delivery, Result, anything_due, finish, lease
from holdfast.ledger.webhooks import Webhook, disable_webhooks, list_webhooks
from holdfast.settlement.expire import tell
from holdfast.settlement.outbox.retry import DELAYS_S, judge
from holdfast.settlement.outbox.sender import SEND_TIMEOUT_S, Answer, Sender

PASS_INTERVAL_S = 1.0
# What comes back within this time is written down together.
GATHER_S = 0.02
# Longer than an attempt can take, with time to write down what came of it.
LEASE_MS = round(SEND_TIMEOUT_S * 1000) + 10_000
# The pool of connections goes through all of them for each request, so more would cost more than they bring.
PLACES = 16


class Leased(Struct, frozen=True):
    now: int
    results: list[Result]
    work: list[tuple[Webhook, Delivery]]


class Deliverer:
    def __init__(
        self, database: Database, sender: Sender, *, delays_s: Sequence[float] = DELAYS_S, places: int = PLACES
    ) -> None:
        self._database = database
        self._sender = sender
        self._delays_s = delays_s
        self._places = places
        self._under_way: Counter[str] = Counter()
        self._answers: list[tuple[Delivery, Answer]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There is something new to send."""
        self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self.pass_once()
                except Exception as exc:
                    tell("deliverer_pass_failed", exc)
                await self._rest()
        finally:
            for task in self._tasks:
                task.cancel()
            await self._sender.close()

    async def _rest(self) -> None:
        try:
            # Not `wait_for`: in Python 3.11 it forgets a cancellation that comes together with the wake.
            async with asyncio.timeout(PASS_INTERVAL_S):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
        await asyncio.sleep(GATHER_S)

    async def pass_once(self) -> int:
        """Write down what came back, and send what is due; how many those are."""
        answers, under_way = list(self._answers), self._under_way.copy()
        if not answers and not await self._database.read(self._is_due):
            return 0
        leased = await self._database.write(lambda c: self._settle_and_lease(c, answers, under_way))
        # Only now: had it failed, the answers would have to be written down the next time.
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
        self, connection: Connection, answers: Sequence[tuple[Delivery, Answer]], under_way: Counter[str]
    ) -> Leased:
        now = self._database.now_ms(connection)
        results = [judge(delivery, answer, now, self._delays_s) for delivery, answer in answers]
        gone = {result.delivery.webhook_id for result in results if result.gone}
        if gone:
            disable_webhooks(connection, gone, now)
        finish(connection, results, now)
        work = []
        for hook in list_webhooks(connection):
            free = self._places - under_way[hook.webhook_id]
            if hook.disabled_at is None and free > 0:
                due = lease(connection, hook.webhook_id, now, now + LEASE_MS, limit=free)
                work += [(hook, delivery) for delivery in due]
        return Leased(now, results, work)

    def _start(self, webhook: Webhook, delivery: Delivery, now: int, until: float) -> None:
        self._under_way[webhook.webhook_id] += 1
        task = asyncio.create_task(self._send(webhook, delivery, now, until))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, webhook: Webhook, delivery: Delivery, now: int, until: float) -> None:
        try:
            if monotonic() < until:
                self._answers.append((delivery, await self._sender.send(webhook, delivery, now)))
        finally:
            self._under_way[webhook.webhook_id] -= 1
            self._wake.set()
