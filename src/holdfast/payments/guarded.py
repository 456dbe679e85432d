"""A payment provider behind a breaker.

Buyers never wait for a provider: settlement does, so many payments at a time. A provider that hangs would hold all of
them for as long as a call may last, again and again. Behind an open breaker they are told at once that nothing was
sent, and come back later; every few seconds one of them goes through to see.
"""

from collections.abc import Awaitable
from time import monotonic
from typing import TypeVar

import structlog

from holdfast import metrics
from holdfast.domain.breaker import Breaker
from holdfast.errors import EngineError, Unavailable
from holdfast.payments.port import Charge, Payment, PaymentProvider, Refund

T = TypeVar("T")
log = structlog.get_logger()

FAILURES_MAX = 10
LEAST_PAUSE_MS, MOST_PAUSE_MS = 1_000, 10_000


class GuardedProvider:
    def __init__(self, name: str, provider: PaymentProvider) -> None:
        self._provider = provider
        self.breaker = Breaker(
            f"payment_{name}",
            failures_max=FAILURES_MAX,
            least_pause_ms=LEAST_PAUSE_MS,
            most_pause_ms=MOST_PAUSE_MS,
        )
        metrics.show_breaker(self.breaker)

    async def authorise(self, charge: Charge) -> Payment:
        self._check()
        return await self._told(self._provider.authorise(charge))

    async def capture(self, payment: Payment) -> Payment:
        self._check()
        return await self._told(self._provider.capture(payment))

    async def void(self, payment: Payment) -> Payment:
        self._check()
        return await self._told(self._provider.void(payment))

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        self._check()
        return await self._told(self._provider.refund(payment, amount, key))

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        self._check()
        return await self._told(self._provider.look_up(key, reference))

    async def close(self) -> None:
        await self._provider.close()

    def _check(self) -> None:
        if not self.breaker.allows(monotonic() * 1000):
            raise Unavailable(f"{self.breaker.name} does not answer; nothing was sent")

    async def _told(self, call: Awaitable[T]) -> T:
        was_closed = self.breaker.is_closed
        try:
            answer = await call
        except EngineError as exc:
            self.breaker.failed(monotonic() * 1000)
            if was_closed and not self.breaker.is_closed:
                log.warning("payment_provider_down", provider=self.breaker.name, error=str(exc))
            raise
        except BaseException:
            # A refusal of a refund is an answer; whoever was called off heard none.
            self.breaker.withdrawn()
            raise
        else:
            if not was_closed:
                log.warning("payment_provider_up", provider=self.breaker.name)
            self.breaker.succeeded()
            return answer
        finally:
            metrics.show_breaker(self.breaker)
