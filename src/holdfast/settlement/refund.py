"""Money that is owed back goes back, once.

The model. A refund is a row, written while the order is locked, so that all of them together never exceed what was
paid. The refunder leases it and gives the money back under the refund's own key: a wallet in the same transaction that
ends the refund, another provider first, asked as often as it takes. With an order that somebody else took the money
for, it only records what they do. Units return exactly once: in the transaction that ends the refund where the database
is the gate; where Redis is, by a restock that is known by the refund's id (`Restocker`).

What happens when it fails. It is tried again later, and parked after some attempts; a provider that refuses parks it at
once. A worker that lost its lease writes nothing.
"""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import structlog
from sqlalchemy import Connection, Row
from uuid_utils import uuid7

from holdfast.domain.command import Restock
from holdfast.domain.outcome import Outcome
from holdfast.domain.sale import PaymentKind
from holdfast.errors import EngineError
from holdfast.gate.sql import SqlGate
from holdfast.ledger import refunds as ledger
from holdfast.ledger.database import Database
from holdfast.ledger.refunds import PAID_IN_LEDGER, RefundView, Wanted
from holdfast.payments.port import Payment, PaymentProvider, PaymentState, RefundRefused
from holdfast.settlement.case import FIRST_RETRY_MS, HISTORY_MAX, LONGEST_RETRY_MS
from holdfast.settlement.charge import Fenced

log = structlog.get_logger()

LEASE_MS = 30_000
PARALLEL = 16
REST_S = 1.0


class Restocker(Protocol):
    async def has_room(self, sku_id: str, units: int) -> bool:
        """Whether a pool may have so many more."""

    async def restock(self, sku_id: str, units: int, reference: str) -> None:
        """Add units to a pool, once for each reference, however often it is asked."""


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
        self._wake = asyncio.Event()

    async def request(self, wanted: Wanted) -> RefundView:
        """Owe it, and pay it if that can be done here and now. Raises `RefundProblem`."""
        refund_id = f"rfd_{uuid7().hex}"
        entered = await self._database.write(
            lambda c: ledger.enter(c, refund_id, wanted, self._database.now_ms(c)),
        )
        if entered.state == "waiting":
            await self._pass(only=entered.refund_id)
            entered = await self._database.read(lambda c: ledger.find(c, entered.refund_id))
        return entered

    async def run(self) -> None:
        while True:
            done = 0
            try:
                done = await self.pass_once()
            except EngineError as exc:
                log.warning("refunder_pass_failed", error=str(exc))
            except Exception:
                log.exception("refunder_pass_failed")
            if not done:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), REST_S)
                self._wake.clear()

    async def pass_once(self) -> int:
        """Take up what is due; gives how many there were. Mostly there is nothing, which needs no writer."""
        if not await self._database.read(lambda c: ledger.is_any_due(c, self._database.now_ms(c))):
            return 0
        return await self._pass(only=None)

    async def _pass(self, only: str | None) -> int:
        leased = await self._database.write(lambda c: self._lease(c, only))
        await asyncio.gather(*[self._settle_or_put_off(refund) for refund in leased])
        return len(leased)

    def _lease(self, connection: Connection, only: str | None) -> list[Row[Any]]:
        now = self._database.now_ms(connection)
        return ledger.lease(connection, now, now + self._lease_ms, PARALLEL, only)

    async def _settle_or_put_off(self, refund: Row[Any]) -> None:
        try:
            await self._settle(refund)
        except Fenced:
            log.warning("refund_fenced", refund_id=refund.refund_id)
        except RefundRefused as exc:
            await self._put_off(refund, str(exc), is_final=True)
        except EngineError as exc:
            await self._put_off(refund, str(exc) or type(exc).__name__)
        except Exception as exc:
            log.exception("refund_failed", refund_id=refund.refund_id)
            await self._put_off(refund, repr(exc))

    async def _settle(self, refund: Row[Any]) -> None:
        if refund.state == "waiting":
            await self._check_room(refund)
            provider, payment = await self._database.read(lambda c: _provider_and_payment(c, refund))
            if provider not in PAID_IN_LEDGER and refund.amount:
                await self._pay_back(provider, payment, refund)
            await self._database.write(lambda c: self._finish(c, refund, provider, payment))
        if refund.restock_units and self._restocker is not None:
            await self._restocker.restock(refund.sku_id, refund.restock_units, refund.refund_id)
            await self._database.write(lambda c: ledger.store_if_leased(c, refund, state="done"))

    async def _check_room(self, refund: Row[Any]) -> None:
        """Before the money moves. Where the database is the gate, it has the last word when the refund ends."""
        units, restocker = refund.restock_units, self._restocker
        if restocker is not None and units and not await restocker.has_room(refund.sku_id, units):
            raise RefundRefused("the units cannot return: the pool has as many as a pool can have")

    async def _pay_back(self, kind: PaymentKind, payment: Row[Any] | None, refund: Row[Any]) -> None:
        provider = self._providers.get(kind)
        if provider is None or payment is None:
            raise RefundRefused(f"there is no {'payment' if payment is None else f'provider {kind}'} to refund from")
        known = Payment(payment.payment_key, PaymentState.CAPTURED, payment.reference, amount=payment.amount)
        answer = await provider.refund(known, refund.amount, refund.refund_id)
        if not answer.is_done:
            raise _NotYet("the provider has not done it yet")

    def _finish(
        self, connection: Connection, refund: Row[Any], provider: PaymentKind, payment: Row[Any] | None
    ) -> None:
        """The money is back. The pool's lock comes first, if it is needed at all."""
        restocks_here = refund.restock_units and self._restocker is None
        if restocks_here:
            [verdict] = self._gate.decide(connection, refund.sku_id, [Restock(refund.restock_units)])
            if verdict.outcome is not Outcome.MOVED:
                raise RefundRefused(f"the units cannot return: {verdict.outcome}")
        now = self._database.now_ms(connection)
        state = "telling" if refund.restock_units and not restocks_here else "done"
        if refund.order_id is not None:
            ledger.lock_order(connection, refund.order_id)
        if not ledger.store_if_leased(connection, refund, state=state, done_at=now, reason=None):
            raise Fenced
        if provider is PaymentKind.WALLET and payment is not None and refund.amount:
            ledger.pay_to_wallet(connection, refund, payment, now)
        ledger.count_on_order(connection, refund, now)

    async def _put_off(self, refund: Row[Any], error: str, *, is_final: bool = False) -> None:
        def work(connection: Connection) -> None:
            now = self._database.now_ms(connection)
            attempts = refund.attempts + 1
            wait = min(FIRST_RETRY_MS << min(attempts - 1, 20), LONGEST_RETRY_MS) * random.uniform(0.5, 1.5)
            history = [
                *msgspec.json.decode(refund.history or "[]"),
                {"at": now, "step": "refund", "error": error[:500]},
            ]
            # Units that are to return are owed by us alone, and nobody can be asked about them: that goes on for ever.
            is_over = refund.state == "waiting" and (is_final or attempts >= self._attempts_max)
            values = {
                "attempts": attempts,
                "due_at": now + int(wait),
                "leased_until": 0,
                "reason": error[:500],
                "history": msgspec.json.encode(history[-HISTORY_MAX:]).decode(),
            }
            ledger.store_if_leased(connection, refund, **values, **({"state": "parked"} if is_over else {}))

        with suppress(EngineError):
            await self._database.write(work)


class _NotYet(EngineError):
    pass


def _provider_and_payment(connection: Connection, refund: Row[Any]) -> tuple[PaymentKind, Row[Any] | None]:
    payment = ledger.payment_of(connection, refund)
    return ledger.provider_of(connection, refund, payment), payment
