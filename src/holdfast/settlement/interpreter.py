"""Runs the effects of settlement: posts an event to the ledger, makes the resulting call, posts its result, and repeats
until the case is closed or has to wait.

Concurrent work of many cases at one pool is batched: events are posted in one transaction, and the gate is notified in
one call.
"""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress

import structlog

from holdfast.domain.sale.sale import reacquired_id
from holdfast.domain.sale.settling_case import (
    INTERNAL_KEY_PREFIX,
    AuthenticationRequested,
    Effect,
    EffectFailed,
    Event,
    GateAcknowledged,
    PaymentStatus,
    ProviderReplied,
    Reacquired,
)
from holdfast.domain.stock.command import Command, Move, Reserve, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.shards import whole_of
from holdfast.errors import EngineError
from holdfast.gate.port import Gate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money.payment_notes import NO_PURCHASE, Purchase, purchase_of
from holdfast.ledger.money.settle_batch import Lease
from holdfast.ledger.sales.allowances import claim_units
from holdfast.payments.port import Charge, Payment, PaymentProvider, PaymentState
from holdfast.runtime import metrics
from holdfast.settlement.posting import Posted, Posting
from holdfast.settlement.record import Record
from holdfast.settlement.together import Together

log = structlog.get_logger()

# A transaction at a pool blocks its purchases, so it must stay short. This many orders take some ten milliseconds; with
# fewer, most of the cost would be the transaction itself.
BATCH_MAX = 64
MOVES_MAX = 512
# The buyer was admitted when the first reservation was made.
ANY_TIER = 2**31 - 1
# Calls for one case in a row: the longest path has six, so more means a loop.
CALLS_MAX = 12


class Fenced(Exception):
    """Another worker has the lease."""


class Interpreter:
    def __init__(
        self, database: Database, gate: Gate, posting: Posting, providers: Mapping[str, PaymentProvider]
    ) -> None:
        self._database = database
        self._gate = gate
        self._posting = posting
        self._providers = providers
        self._posts: Together[Posted, Record | None] = Together(self._post_all, most=BATCH_MAX)
        self._moves: Together[Move, Verdict] = Together(self._apply_all, most=MOVES_MAX)

    async def settle(self, lease: Lease, event: Event) -> None:
        """Walk a leased case as far as it can go now. Never raises."""
        await self._guarded(lease, self._settle(lease, event))

    async def proceed(self, record: Record) -> None:
        """Like `settle`, for a case that is already posted."""
        await self._guarded(record.lease, self._walk(record))

    async def _guarded(self, lease: Lease, work: Awaitable[None]) -> None:
        try:
            await work
        except Fenced:
            log.warning("settlement_fenced", reservation_id=lease.reservation_id)
        except EngineError as exc:
            # The ledger is unavailable. The lease expires, and another worker continues from the stored state.
            log.warning("settlement_interrupted", error=str(exc), reservation_id=lease.reservation_id)
        except Exception as exc:
            log.exception("settlement_failed", reservation_id=lease.reservation_id)
            # If this fails, too, the lease expires.
            with suppress(Exception):
                await self._post(lease, EffectFailed(Effect.RETRY_LATER, repr(exc)))

    async def _settle(self, lease: Lease, event: Event) -> None:
        await self._walk(await self._post(lease, event))

    async def _walk(self, record: Record) -> None:
        for _ in range(CALLS_MAX):
            if record.pending is None:
                return
            record = await self._post(record.lease, await self._run(record.pending, record))
        final = EffectFailed(Effect.RETRY_LATER, "too many calls without an end", is_final=True)
        await self._post(record.lease, final)

    # --- in the ledger

    async def _post(self, lease: Lease, event: Event) -> Record:
        record = await self._posts.submit(lease.sku_id, (lease, event))
        if record is None:
            raise Fenced
        return record

    async def _post_all(self, sku_id: str, posted: Sequence[Posted]) -> list[Record | None]:
        records = await self._database.write(lambda c: self._posting.settle(c, sku_id, posted))
        self.note_outcomes([record for record in records if record is not None])
        return records

    def note_outcomes(self, records: Sequence[Record]) -> None:
        """Continue now that the event is durable."""
        for record in records:
            if record.outcome is not None:
                kind = "unknown" if record.sale is None else record.sale.payment
                metrics.SETTLED.labels(kind, record.outcome).inc()

    # --- outside

    async def _run(self, effect: Effect, record: Record) -> Event:
        try:
            match effect:
                case Effect.NOTIFY_GATE:
                    return await self._notify_gate(record)
                case Effect.REACQUIRE:
                    return await self._reacquire(record)
                case _:
                    return await self._call_provider(effect, record)
        except EngineError as exc:
            # Not reached, or outcome unknown: in either case the next worker continues from the stored state.
            return EffectFailed(effect, str(exc) or type(exc).__name__)
        except Exception as exc:
            log.exception("settlement_effect_failed", reservation_id=record.reservation_id, effect=effect)
            return EffectFailed(effect, repr(exc))

    async def _notify_gate(self, record: Record) -> Event:
        ending = record.case.ending
        assert ending is not None
        is_sold, attempt = ending is Transition.CONFIRM, record.case.payment_attempt
        move = Move(ending, record.reservation_id, is_claimed=is_sold, attempt=attempt)
        verdict = await self._moves.submit(record.work["sku_id"], move)
        if verdict.outcome in (Outcome.MOVED, Outcome.ALREADY):
            return GateAcknowledged()
        # If the move is illegal or not found, the reservation ended elsewhere or the gate lost it. The ledger decides.
        return EffectFailed(Effect.NOTIFY_GATE, f"the gate says {verdict.outcome}")

    async def _apply_all(self, sku_id: str, moves: Sequence[Move]) -> list[Verdict]:
        commands: list[Command] = list(moves)
        return await self._gate.apply(whole_of(sku_id), commands)

    async def _reacquire(self, record: Record) -> Event:
        """Replacement units for money that came too late; they are then settled like any others."""
        id_, quantity = record.reservation_id, record.work["quantity"]
        reserve = Reserve(
            reacquired_id(id_),
            record.work["buyer_id"],
            quantity,
            quantity,
            key=f"{INTERNAL_KEY_PREFIX}again:{id_}",
            tier=ANY_TIER,
            settle=True,
        )
        sale = record.sale
        if sale is not None and sale.drop_id is not None:
            now = self._database.now_ms
            if await self._database.write(lambda c: claim_units(c, sale, reserve, now=now(c))) is not None:
                return Reacquired("no replacement: the buyer's limit in the drop")
        [verdict] = await self._gate.apply(whole_of(record.work["sku_id"]), [reserve])
        granted = None if verdict.reservation is None else verdict.reservation.reservation_id
        if verdict.outcome in (Outcome.RESERVED, Outcome.REPLAYED) and granted == reserve.reservation_id:
            return Reacquired()
        if verdict.outcome is Outcome.NOT_READY:
            return EffectFailed(Effect.REACQUIRE, "the gate is not ready")
        return Reacquired(f"no replacement: {verdict.outcome}")

    async def _call_provider(self, effect: Effect, record: Record) -> Event:
        assert record.sale is not None
        kind = record.sale.payment
        provider = self._providers.get(kind)
        if provider is None:
            return EffectFailed(effect, f"no payment provider {kind} is configured")
        reply = await _call(provider, effect, record, await self._purchase(effect, record))
        is_looked_up = effect is Effect.LOOK_UP
        if reply is None:
            return ProviderReplied(None, is_looked_up=is_looked_up)
        if reply.state is PaymentState.PENDING and reply.needs_buyer:
            return AuthenticationRequested(reply.reference)
        if reply.state is PaymentState.PENDING:
            return EffectFailed(effect, "the provider has not decided yet")
        status = PaymentStatus(reply.state.value)
        return ProviderReplied(status, reply.amount, reply.reference, reply.reason, is_looked_up)  # type: ignore[arg-type]

    async def _purchase(self, effect: Effect, record: Record) -> Purchase:
        if effect is not Effect.AUTHORISE:
            return NO_PURCHASE
        sku_id, buyer_id = record.work["sku_id"], record.work["buyer_id"]
        return await self._database.read(lambda c: purchase_of(c, sku_id, buyer_id, record.reservation_id))


async def _call(provider: PaymentProvider, effect: Effect, record: Record, purchase: Purchase) -> Payment | None:
    payment = record.payment
    assert payment is not None
    known = Payment(payment["payment_key"], PaymentState.AUTHORISED, payment["reference"], amount=payment["amount"])
    match effect:
        case Effect.AUTHORISE:
            names = ("amount", "currency", "buyer_id", "reservation_id", "sale_id", "method", "customer")
            return await provider.authorise(
                Charge(
                    known.key,
                    **{name: payment[name] for name in names},
                    purchase_key=purchase.key,
                    purchase_fingerprint=purchase.fingerprint,
                    ledger_mark=purchase.ledger_mark,
                )
            )
        case Effect.CAPTURE:
            return await provider.capture(known)
        case Effect.VOID:
            return await provider.void(known)
        case _:
            return await provider.look_up(known.key, known.reference)
