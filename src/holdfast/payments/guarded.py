"""A payment provider behind a breaker.

Buyers never wait for a provider; settlement does, with a bounded number of payments at a time. A provider that hangs
would hold all of them until each call times out, again and again. While the breaker is open, calls fail at once without
being sent and are retried later; every few seconds one call goes through as a probe.
"""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

import structlog

from holdfast.errors import EngineError, Unavailable
from holdfast.payments.port import Charge, NextAction, Payment, PaymentPage, PaymentProvider, Refund
from holdfast.runtime import metrics
from holdfast.runtime.breaker import Breaker

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
        return await self._call(self._provider.authorise, charge)

    async def capture(self, payment: Payment) -> Payment:
        return await self._call(self._provider.capture, payment)

    async def void(self, payment: Payment) -> Payment:
        return await self._call(self._provider.void, payment)

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        return await self._call(self._provider.refund, payment, amount, key)

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        return await self._call(self._provider.look_up, key, reference)

    async def next_action(self, key: str, reference: str) -> NextAction | None:
        return await self._call(self._provider.next_action, key, reference)

    async def list_since(self, since: int, after: str | None = None) -> PaymentPage:
        return await self._call(self._provider.list_since, since, after)

    async def close(self) -> None:
        await self._provider.close()

    async def _call(self, call: Callable[..., Awaitable[T]], *arguments: object) -> T:
        if not self.breaker.allows(monotonic() * 1000):
            raise Unavailable(f"{self.breaker.name} does not answer; nothing was sent")
        was_closed = self.breaker.is_closed
        try:
            answer = await call(*arguments)
        except EngineError as exc:
            self.breaker.failed(monotonic() * 1000)
            if was_closed and not self.breaker.is_closed:
                log.warning("payment_provider_down", provider=self.breaker.name, error=str(exc))
            raise
        except BaseException:
            # A refused refund is a response; a cancelled call got none.
            self.breaker.withdrawn()
            raise
        else:
            if not was_closed:
                log.warning("payment_provider_up", provider=self.breaker.name)
            self.breaker.succeeded()
            return answer
        finally:
            metrics.show_breaker(self.breaker)
