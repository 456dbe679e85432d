"""Pays refunds back, each exactly once.

The model. A refund is a row, written while the order is locked, so that all refunds together never exceed what was
paid. The refunder leases it and pays the money back under the refund's own key. A wallet is paid in the transaction
that ends the refund; a provider is called first, with retries. In a sale that is paid externally, the refunder only
records the caller's refund. In any other sale, an order without a payment has nothing to pay back, and its refund is
parked. Units return exactly once: in the transaction that ends the refund where the database is the gate; where Redis
is, by a restock that carries the refund's ID (`Restocker`).

On failure it is retried later and parked after some attempts; a provider that refuses parks it at once. A worker that
has lost its lease writes nothing.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import structlog
from sqlalchemy import Connection, Row
from uuid_utils import uuid7

from holdfast.domain.sale.sale import PaymentKind
from holdfast.domain.stock.command import Restock
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import EngineError, Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money import refunds as ledger
from holdfast.ledger.money.refunds import PAID_IN_LEDGER, RefundView, Wanted
from holdfast.payments.port import Payment, PaymentProvider, PaymentState, RefundRefused
from holdfast.runtime.agent import THOROUGH_PASS_S, Agent
from holdfast.settlement.interpreter import Fenced
from holdfast.settlement.retry import deferred

log = structlog.get_logger()

LEASE_MS = 30_000
PARALLEL = 16
REST_S = 1.0


class Restocker(Protocol):
    async def has_room(self, sku_id: str, units: int) -> bool:
        """Whether the pool's total may grow by this many units."""

    async def restock(self, sku_id: str, units: int, reference: str) -> None:
        """Add units to a pool, once per reference."""


class Refunder:
    def __init__(
        self,
        database: Database,
        providers: Mapping[str, PaymentProvider],
        restocker: Restocker | None = None,
        *,
        attempts_max: int = 12,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """Without a `restocker`, the database is the gate, and units return in the ledger itself."""
        self._database = database
        self._providers = providers
        self._restocker = restocker
        self._attempts_max = attempts_max
        self._lease_ms = lease_ms
        self._gate = SqlGate(database)

    async def request(self, wanted: Wanted) -> RefundView:
        """Record the refund, and pay it now if possible. Raises `RefundProblem`."""
        refund_id = f"rfd_{uuid7().hex}"
        entered = await self._database.write(
            lambda c: ledger.enter(c, refund_id, wanted, self._database.now_ms(c)),
        )
        if entered.state == "waiting":
            await self._pass(only=entered.refund_id)
            entered = await self._database.read(lambda c: ledger.find(c, entered.refund_id))
        return entered

    def agent(self) -> Agent[int]:
        return Agent(
            "refunder",
            self.pass_once,
            REST_S,
            rest_s=lambda done: 0.0 if done else REST_S,
            longest_pass_s=THOROUGH_PASS_S,
        )

    async def pass_once(self) -> int:
        """Pay due refunds. Returns how many there were. Usually there are none, and then no write is needed."""
        if not await self._database.read(lambda c: ledger.is_any_due(c, self._database.now_ms(c))):
            return 0
        return await self._pass(only=None)

    async def _pass(self, only: str | None) -> int:
        leased = await self._database.write(lambda c: self._lease(c, only))
        await asyncio.gather(*[self._settle_or_defer(refund) for refund in leased])
        return len(leased)

    def _lease(self, connection: Connection, only: str | None) -> list[Row[Any]]:
        now = self._database.now_ms(connection)
        return ledger.lease(connection, now, now + self._lease_ms, PARALLEL, only)

    async def _settle_or_defer(self, refund: Row[Any]) -> None:
        try:
            await self._settle(refund)
        except Fenced:
            log.warning("refund_fenced", refund_id=refund.refund_id)
        except RefundRefused as exc:
            await self._defer(refund, str(exc), is_final=True)
        except EngineError as exc:
            await self._defer(refund, str(exc) or type(exc).__name__)
        except Exception as exc:
            log.exception("refund_failed", refund_id=refund.refund_id)
            await self._defer(refund, repr(exc))

    async def _settle(self, refund: Row[Any]) -> None:
        if refund.state == "waiting":
            await self._check_room(refund)
            provider, payment = await self._database.read(lambda c: _provider_and_payment(c, refund))
            if payment is None and refund.amount and provider is not PaymentKind.EXTERNAL:
                raise RefundRefused("there is no payment to refund: pay the money back yourself, then drop this")
            if payment is not None and provider not in PAID_IN_LEDGER and refund.amount:
                await self._pay_back(provider, payment, refund)
            await self._database.write(lambda c: self._finish(c, refund, provider, payment))
        if refund.restock_units and self._restocker is not None:
            await self._restocker.restock(refund.sku_id, refund.restock_units, refund.refund_id)
            await self._database.write(lambda c: ledger.units_returned(c, refund, self._database.now_ms(c)))

    async def _check_room(self, refund: Row[Any]) -> None:
        """Before the money moves. Where the database is the gate, `_finish` checks under the pool's lock."""
        units, restocker = refund.restock_units, self._restocker
        if restocker is not None and units and not await restocker.has_room(refund.sku_id, units):
            raise RefundRefused("the units cannot return: the pool is at its maximum size")

    async def _pay_back(self, kind: PaymentKind, payment: Row[Any], refund: Row[Any]) -> None:
        provider = self._providers.get(kind)
        if provider is None:
            raise RefundRefused(f"there is no provider {kind} to refund from")
        known = Payment(payment.payment_key, PaymentState.CAPTURED, payment.reference, amount=payment.amount)
        answer = await provider.refund(known, refund.amount, refund.refund_id)
        if not answer.is_done:
            raise Unavailable("the provider has not done it yet")

    def _finish(
        self, connection: Connection, refund: Row[Any], provider: PaymentKind, payment: Row[Any] | None
    ) -> None:
        """The money is back. The pool is locked first, if it is needed at all."""
        restocks_here = refund.restock_units and self._restocker is None
        if restocks_here:
            [verdict] = self._gate.decide(connection, refund.sku_id, [Restock(refund.restock_units)])
            if verdict.outcome is not Outcome.MOVED:
                raise RefundRefused(f"the units cannot return: {verdict.outcome}")
        now = self._database.now_ms(connection)
        state = "notifying" if refund.restock_units and not restocks_here else "done"
        if refund.order_id is not None:
            ledger.lock_order(connection, refund.order_id)
        if not ledger.store_if_leased(connection, refund, state=state, done_at=now, reason=None):
            raise Fenced
        entries = []
        if provider is PaymentKind.WALLET and payment is not None and refund.amount:
            entries = ledger.pay_to_wallet(connection, refund, payment, now)
        ledger.count_on_order(connection, refund, state, entries, now)

    async def _defer(self, refund: Row[Any], error: str, *, is_final: bool = False) -> None:
        def work(connection: Connection) -> None:
            attempts = refund.attempts + 1
            now = self._database.now_ms(connection)
            values = deferred(refund.history, "refund", error, attempts, now)
            # Once the money is back, only units have to return. No operator can help with that, so it is retried
            # indefinitely.
            if refund.state == "waiting" and (is_final or attempts >= self._attempts_max):
                values["state"] = "parked"
            ledger.store_if_leased(connection, refund, **values)

        with suppress(EngineError):
            await self._database.write(work)


def _provider_and_payment(connection: Connection, refund: Row[Any]) -> tuple[PaymentKind, Row[Any] | None]:
    payment = ledger.payment_of(connection, refund)
    return ledger.provider_of(connection, refund, payment), payment
