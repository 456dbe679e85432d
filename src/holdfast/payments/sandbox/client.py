"""The sandbox as a payment provider, over HTTP.

Nothing is tried twice here: whoever asks knows when to ask again. Only an answer that can be read, about the key that
was asked for, is believed.
"""

import itertools
from typing import TypeVar

import httpx
import msgspec

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.payments.port import Charge, Payment, PaymentState, Refund, RefundRefused
from holdfast.payments.sandbox.entry import Refused

# Together enough that a settler with some hundred payments under way does not wait for connections. They are in many
# small pools because httpx looks at every connection of a pool for every request: one pool of 256 took 7.3 ms of
# processor time for authorise and capture, these take 3.3 ms.
POOLS = 16
CONNECTIONS_PER_POOL = 16

T = TypeVar("T")


class SandboxProvider:
    def __init__(self, url: str, timeout_s: float) -> None:
        limits = httpx.Limits(max_connections=CONNECTIONS_PER_POOL, max_keepalive_connections=CONNECTIONS_PER_POOL)
        # Reading all certificates takes long enough to do it once. Proxies and netrc files are none of its business.
        verify = httpx.create_ssl_context(trust_env=False)
        self._pools = [
            httpx.AsyncClient(base_url=url, timeout=timeout_s, limits=limits, verify=verify, trust_env=False)
            for _ in range(POOLS)
        ]
        self._next_pool = itertools.cycle(self._pools)

    async def authorise(self, charge: Charge) -> Payment:
        answer = await self._call("POST", "/authorise", msgspec.json.encode(charge))
        if answer.status_code == 422:
            return Payment(charge.key, PaymentState.DECLINED, reason=_read(answer, Refused).error, amount=charge.amount)
        if answer.status_code != 200:
            raise _unexpected(answer)
        payment = _about(charge.key, _read(answer, Payment))
        if payment.amount != charge.amount:
            raise OutcomeUnknown(f"the payment sandbox has another amount for {charge.key}: {payment.amount}")
        return payment

    async def capture(self, payment: Payment) -> Payment:
        changed = await self._change("/capture", payment)
        if changed.state in (PaymentState.AUTHORISED, PaymentState.PENDING):
            raise OutcomeUnknown(f"the payment sandbox did not capture {payment.key}, and has it {changed.state}")
        return changed

    async def void(self, payment: Payment) -> Payment:
        return await self._change("/void", payment)

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        body = msgspec.json.encode({"payment_key": payment.key, "key": key, "amount": amount})
        answer = await self._call("POST", "/refund", body)
        if answer.status_code in (404, 409, 422):
            refused = _read(answer, Refused)
            raise RefundRefused(f"{refused.error}: {refused.detail}")
        if answer.status_code != 200:
            raise _unexpected(answer)
        refund = _read(answer, Refund)
        if (refund.key, refund.amount) != (key, amount):
            raise OutcomeUnknown(f"the payment sandbox answered about another refund than {key}")
        return refund

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        answer = await self._call("GET", "/payments", params={"key": key})
        if answer.status_code == 404 and _read(answer, Refused).error == "not_found":
            return None
        if answer.status_code != 200:
            raise _unexpected(answer)
        return _about(key, _read(answer, Payment))

    async def close(self) -> None:
        for pool in self._pools:
            await pool.aclose()

    async def _change(self, path: str, payment: Payment) -> Payment:
        """A refusal says how the payment stands, which is the answer."""
        answer = await self._call("POST", path, msgspec.json.encode({"key": payment.key}))
        if answer.status_code == 409:
            standing = _read(answer, Refused).payment
            if standing is not None:
                return _about(payment.key, standing)
        if answer.status_code != 200:
            raise _unexpected(answer)
        return _about(payment.key, _read(answer, Payment))

    async def _call(
        self, method: str, path: str, content: bytes | None = None, params: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            answer = await next(self._next_pool).request(method, path, content=content, params=params)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as exc:
            raise Unavailable(f"the payment sandbox cannot be reached: {exc!r}") from exc
        except httpx.HTTPError as exc:
            raise OutcomeUnknown(f"the payment sandbox did not answer: {exc!r}") from exc
        if answer.status_code == 503 and _says_nothing_was_done(answer):
            raise Unavailable("the payment sandbox is down")
        return answer


def _says_nothing_was_done(answer: httpx.Response) -> bool:
    try:
        return _read(answer, Refused).error == "down"
    except OutcomeUnknown:
        return False


def _read(answer: httpx.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise OutcomeUnknown(f"the payment sandbox's answer cannot be read: {exc}") from exc


def _about(key: str, payment: Payment) -> Payment:
    if payment.key != key:
        raise OutcomeUnknown(f"the payment sandbox answered about another payment than {key}")
    return payment


def _unexpected(answer: httpx.Response) -> OutcomeUnknown:
    return OutcomeUnknown(f"the payment sandbox answered {answer.status_code}: {answer.text[:200]}")
