"""Reservations that are to be paid for become orders.

The model. Work is a row in the ledger (`settlements`), written with the move to settling. The settler goes around the
pools that have some due, one after the other, so that a large sale does not starve a small one. What the ledger can pay
by itself (wallets) it settles in bulk, one transaction for many, without any lease: the transaction is all there is.
What another provider pays is leased, and walked through its steps (`domain/settling.py`), many at once; whatever the
ledger has to write for them is written together (`Together`, `Desk`).

What happens when it fails. A step that fails is tried again later, with growing and jittered pauses, and parked after
`attempts_max`, with what happened; the others go on. A worker that dies leaves leases that run out; who comes next
looks at what is written, asks the provider where that does not tell enough, and goes on. One that slept past its lease
is fenced: its number is not the row's any more, and nothing it brings is written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from time import perf_counter

import structlog
from sqlalchemy import Connection

from holdfast import metrics
from holdfast.domain.command import Command, Move, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.sale import PaymentKind
from holdfast.domain.settling import Step
from holdfast.domain.shards import whole_of
from holdfast.errors import EngineError
from holdfast.gate.port import Gate
from holdfast.ledger.database import Database
from holdfast.ledger.settle_batch import DuePool, Item
from holdfast.payments.port import PaymentProvider
from holdfast.settlement.case import Case, Failed, Heard, News
from holdfast.settlement.charge import Charger, Fenced
from holdfast.settlement.desk import Asked, Desk
from holdfast.settlement.pace import Pace
from holdfast.settlement.together import Together

log = structlog.get_logger()

SHORTEST_REST_S = 0.02
LONGEST_REST_S = 0.5
# A transaction at a pool keeps its purchases waiting, so it must stay short: this many orders take some ten
# milliseconds, and fewer would mostly pay for the transaction itself. Then the purchases that waited have their turn.
BATCH_MAX = 64
REST_SHARE = 0.5
# A look at what is due counts all of it, so those who have much have several turns before the next.
ROUNDS = 8
# Beyond the longest call to a provider by far: who is still alive then has been asleep.
LEASE_MS = 30_000


class Settler:
    def __init__(
        self,
        database: Database,
        gate: Gate,
        desk: Desk,
        providers: Mapping[str, PaymentProvider],
        *,
        rate_per_second: float = 5_000,
        parallel: int = 64,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self._database = database
        self._gate = gate
        self._desk = desk
        self._pace = Pace(rate_per_second)
        self._parallel = parallel
        self._lease_ms = lease_ms
        self._posting: Together[Asked, Case | None] = Together(self._post, most=BATCH_MAX)
        self._telling: Together[Move, Verdict] = Together(self._apply, most=512)
        self.charger = Charger(providers, gate, self._posting.submit)
        self._under_way: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._turn = 0

    def nudge(self) -> None:
        """There is, or may be, work now."""
        self._wake.set()

    async def run(self) -> None:
        rest = SHORTEST_REST_S
        try:
            while True:
                done = 0
                try:
                    done = await self.pass_once()
                except EngineError as exc:
                    log.warning("settler_pass_failed", error=str(exc))
                except Exception:
                    log.exception("settler_pass_failed")
                rest = SHORTEST_REST_S if done else min(rest * 2, LONGEST_REST_S)
                await self._rest(0.0 if done else rest)
        finally:
            for task in self._under_way:
                task.cancel()

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds or 0.001)
        self._wake.clear()

    async def settle_all(self) -> None:
        """Until nothing is due any more. What was put off is left for later."""
        while await self.pass_once() or self._under_way:
            if self._under_way:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def pass_once(self) -> int:
        """One turn for every pool that has work due; gives how much was taken up."""
        due = await self._database.read(self._due)
        if not due:
            return 0
        # Whoever comes first may use up what there is of rate or parallelism, so everybody comes first in turn.
        self._turn += 1
        start = self._turn % len(due)
        busy, taken = [*due[start:], *due[:start]], 0
        for _ in range(ROUNDS):
            served = [(pool, await self._serve_or_tell(pool, len(busy))) for pool in busy]
            taken += sum(count for _, count in served)
            busy = [pool for pool, count in served if count >= BATCH_MAX]
        return taken

    def _due(self, connection: Connection) -> list[DuePool]:
        return self._desk.queries.due_pools(connection, self._database.now_ms(connection))

    async def _serve_or_tell(self, pool: DuePool, pools: int) -> int:
        """One pool that fails must not keep the others waiting."""
        try:
            if pool.payment in (PaymentKind.SANDBOX, PaymentKind.STRIPE):
                return await self._charge_some(pool, pools)
            return await self._settle_in_ledger(pool)
        except EngineError as exc:
            log.warning("settler_pool_failed", sku_id=pool.sku_id, error=str(exc))
        except Exception:
            log.exception("settler_pool_failed", sku_id=pool.sku_id)
        return 0

    # --- in the ledger, in bulk

    async def _settle_in_ledger(self, pool: DuePool) -> int:
        await self._pace.spend(min(pool.count, BATCH_MAX))
        started = perf_counter()
        try:
            cases = await self._database.write(lambda c: self._desk.settle_due(c, pool.sku_id, BATCH_MAX))
        except EngineError:
            raise
        except Exception:
            log.exception("settlement_batch_failed", sku_id=pool.sku_id)
            return await self._settle_one_by_one(pool)
        _count(cases)
        if len(cases) == BATCH_MAX:
            await asyncio.sleep((perf_counter() - started) * REST_SHARE)
        await self._tell(pool.sku_id, [case for case in cases if case.step() is Step.TELL and case.is_open])
        for case in cases:
            if case.is_open and case.step() is Step.WAIT:
                await self._post(pool.sku_id, [(_item(case), Failed(Step.WAIT, "the ledger has no room for it yet"))])
        return len(cases)

    async def _settle_one_by_one(self, pool: DuePool) -> int:
        """Something in the batch cannot be settled, and must not keep the rest from it."""
        items = await self._database.write(lambda c: self._lease(c, pool.sku_id, BATCH_MAX))
        for item in items:
            self._start(self.finish(item, None))
        return len(items)

    async def _tell(self, sku_id: str, cases: Sequence[Case]) -> None:
        if not cases:
            return
        verdicts = await self._apply(sku_id, [_move(case) for case in cases])
        asked: list[Asked] = [(_item(case), _heard(verdict)) for case, verdict in zip(cases, verdicts, strict=True)]
        await self._post(sku_id, asked)

    # --- with a provider, one by one but many at once

    async def _charge_some(self, pool: DuePool, pools: int) -> int:
        free = self._parallel - len(self._under_way)
        if free <= self._parallel // 8:
            return 0
        wanted = min(pool.count, max(free // pools, 1), BATCH_MAX)
        await self._pace.spend(wanted)
        items = await self._database.write(lambda c: self._lease(c, pool.sku_id, wanted))
        for item in items:
            self._start(self._charge(item))
        return len(items)

    def _lease(self, connection: Connection, sku_id: str, limit: int) -> list[Item]:
        now = self._database.now_ms(connection)
        return self._desk.queries.lease(connection, sku_id, now, now + self._lease_ms, limit)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        # A look at what is due for every single one would cost more than it gains.
        if len(self._under_way) <= self._parallel * 3 // 4:
            self.nudge()

    async def _charge(self, item: Item) -> None:
        await self._guarded(item, lambda: self.charger.settle(item))

    async def _guarded(self, item: Item, work: Callable[[], Awaitable[Case | None]]) -> None:
        try:
            case = await work()
            if case is not None and case.is_open and case.step() is Step.TELL:
                verdict = await self._telling.submit(item.sku_id, _move(case))
                await self._posting.submit(item.sku_id, (item, _heard(verdict)))
            _count([case] if case is not None else [])
        except Fenced:
            log.warning("settlement_fenced", reservation_id=item.reservation_id)
        except EngineError as exc:
            # The ledger is away. The lease runs out, and somebody goes on from what is written.
            log.warning("settlement_interrupted", reservation_id=item.reservation_id, error=str(exc))
        except Exception as exc:
            log.exception("settlement_failed", reservation_id=item.reservation_id)
            await self._put_off(item, Failed(Step.WAIT, repr(exc)))

    async def finish(self, item: Item, news: News | None) -> None:
        """Take in what is new about a case that is leased, and tell the gate if that ends it."""
        await self._guarded(item, lambda: self._posting.submit(item.sku_id, (item, news)))

    async def _put_off(self, item: Item, failed: Failed) -> None:
        try:
            await self._posting.submit(item.sku_id, (item, failed))
        except Exception:
            log.exception("settlement_not_put_off", reservation_id=item.reservation_id)

    # --- what is done together

    async def _post(self, sku_id: str, asked: Sequence[Asked]) -> list[Case | None]:
        return await self._database.write(lambda c: self._desk.settle(c, sku_id, asked))

    async def _apply(self, sku_id: str, moves: Sequence[Move]) -> list[Verdict]:
        commands: list[Command] = list(moves)
        return await self._gate.apply(whole_of(sku_id), commands)


def _heard(verdict: Verdict) -> Heard | Failed:
    """Whether the gate knows. A confirmation is claimed in the ledger, so a gate that contradicts will be put right."""
    if verdict.outcome in (Outcome.MOVED, Outcome.ALREADY):
        return Heard()
    # A failure that is illegal, or of nothing, is one that somebody else ended, or that a gate has lost. Which it is,
    # the ledger will say.
    return Failed(Step.TELL, f"the gate says {verdict.outcome}")


def _move(case: Case) -> Move:
    assert case.ending is not None
    return Move(case.ending, case.reservation_id)


def _item(case: Case) -> Item:
    return Item(case.reservation_id, case.work["sku_id"], case.work["fence"])


def _count(cases: Sequence[Case]) -> None:
    for case in cases:
        if case.outcome is not None:
            metrics.SETTLED.labels(case.kind or "unknown", case.outcome).inc()
