"""The sandbox as a payment provider, over HTTP.

Nothing is retried here: the caller decides when to. Only a readable response about the requested key is trusted.
"""

from typing import TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.payments.answer import open_session, read_answer
from holdfast.payments.port import Charge, NextAction, Payment, PaymentPage, PaymentState, Refund, RefundRefused
from holdfast.payments.sandbox.refused import Refused

# The request never left.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

T = TypeVar("T")


class _Answer(Struct, frozen=True):
    status: int
    content: bytes


class SandboxProvider:
    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        """Opened with the first call, because it needs a running loop."""
        if self._opened is None:
            # Waiting for a connection would look like a timeout of the provider. The settler limits the number of
            # calls.
            self._opened = open_session(self._timeout_s, aiohttp.TCPConnector(limit=0))
        return self._opened

    async def authorise(self, charge: Charge) -> Payment:
        answer = await self._call("POST", "/authorise", msgspec.json.encode(charge))
        if answer.status == 422:
            return Payment(charge.key, PaymentState.DECLINED, reason=_read(answer, Refused).error, amount=charge.amount)
        if answer.status != 200:
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
        if answer.status in (404, 409, 422):
            refused = _read(answer, Refused)
            raise RefundRefused(f"{refused.error}: {refused.detail}")
        if answer.status != 200:
            raise _unexpected(answer)
        refund = _read(answer, Refund)
        if (refund.key, refund.amount) != (key, amount):
            raise OutcomeUnknown(f"the payment sandbox answered about another refund than {key}")
        return refund

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        answer = await self._call("GET", "/payments", params={"key": key})
        if answer.status == 404 and _read(answer, Refused).error == "not_found":
            return None
        if answer.status != 200:
            raise _unexpected(answer)
        return _about(key, _read(answer, Payment))

    async def next_action(self, key: str, reference: str) -> NextAction | None:
        known = await self.look_up(key)
        return NextAction(url=f"{self._url}/bank/{reference}") if known is not None and known.needs_buyer else None

    async def list_since(self, since: int, after: str | None = None) -> PaymentPage:
        answer = await self._call("GET", "/charges", params={"since": str(since), "after": after or "0"})
        if answer.status != 200:
            raise _unexpected(answer)
        return _read(answer, PaymentPage)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _change(self, path: str, payment: Payment) -> Payment:
        """A refusal carries the current payment, which is the result."""
        answer = await self._call("POST", path, msgspec.json.encode({"key": payment.key}))
        if answer.status == 409:
            standing = _read(answer, Refused).payment
            if standing is not None:
                return _about(payment.key, standing)
        if answer.status != 200:
            raise _unexpected(answer)
        return _about(payment.key, _read(answer, Payment))

    async def _call(
        self, method: str, path: str, content: bytes | None = None, params: dict[str, str] | None = None
    ) -> _Answer:
        try:
            # A redirect whose target is unreachable would look like a request that was never sent.
            calling = self._session.request(
                method, self._url + path, data=content, params=params, allow_redirects=False
            )
            async with calling as received:
                answer = _Answer(received.status, await read_answer(received))
        except _NOT_SENT as exc:
            raise Unavailable(f"the payment sandbox cannot be reached: {exc!r}") from exc
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise OutcomeUnknown(f"the payment sandbox did not answer: {exc!r}") from exc
        if answer.status == 503 and _says_nothing_was_done(answer):
            raise Unavailable("the payment sandbox is down")
        return answer


def _says_nothing_was_done(answer: _Answer) -> bool:
    try:
        return _read(answer, Refused).error == "down"
    except OutcomeUnknown:
        return False


def _read(answer: _Answer, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise OutcomeUnknown(f"the payment sandbox's answer cannot be read: {exc}") from exc


def _about(key: str, payment: Payment) -> Payment:
    if payment.key != key:
        raise OutcomeUnknown(f"the payment sandbox answered about another payment than {key}")
    return payment


def _unexpected(answer: _Answer) -> OutcomeUnknown:
    return OutcomeUnknown(f"the payment sandbox answered {answer.status}: {answer.content[:200]!r}")
