"""Verifies captcha tokens with the service that issued them: Turnstile, hCaptcha, or any that speaks `siteverify`.

The model. A buyer sends `captcha:` and the widget's token as `proof`, instead of a solved puzzle. One POST asks the
service whether the token is genuine; it says so once. That a token admits one buyer once is kept in the ledger, like
that of a puzzle (room/challenge.py).

What happens when it fails. If the service is late, broken or misconfigured, buyers solve the puzzle instead, even where
a captcha is required. After several failures in a row the breaker opens, and joins do not wait for it.
"""

import asyncio
from time import monotonic

import aiohttp
import msgspec
import structlog
from msgspec import Struct, field

from holdfast.payments.answer import open_session, read_answer
from holdfast.room.captcha import Verified
from holdfast.runtime import metrics
from holdfast.runtime.breaker import Breaker

log = structlog.get_logger()

TIMEOUT_S = 2.0
# Those of Turnstile have at most 2,048 characters, those of hCaptcha about as many.
TOKEN_MAX = 4_096
FAILURES_MAX = 5
LEAST_PAUSE_MS, MOST_PAUSE_MS = 1_000, 30_000
IN_FLIGHT_MAX = 256

# Of both services. Anything else that is no success means a wrong token.
_USED = frozenset(
    {"timeout-or-duplicate", "already-seen-response", "invalid-or-already-seen-response", "expired-input-response"}
)
_NOT_THE_BUYERS_FAULT = frozenset(
    {"missing-input-secret", "invalid-input-secret", "sitekey-secret-mismatch", "internal-error"}
)


class _Answer(Struct, frozen=True):
    success: bool
    error_codes: list[str] = field(default_factory=list, name="error-codes")


_read = msgspec.json.Decoder(_Answer).decode


class SiteVerify:
    def __init__(self, url: str, secret: str, timeout_s: float = TIMEOUT_S) -> None:
        self._url, self._secret, self._timeout_s = url, secret, timeout_s
        self._opened: aiohttp.ClientSession | None = None
        self._in_flight = 0
        self.breaker = Breaker(
            "captcha", failures_max=FAILURES_MAX, least_pause_ms=LEAST_PAUSE_MS, most_pause_ms=MOST_PAUSE_MS
        )
        metrics.show_breaker(self.breaker)

    async def verify(self, token: str) -> Verified:
        if not _could_be_token(token):
            return Verified.NO
        if self._in_flight >= IN_FLIGHT_MAX or not self.breaker.allows(monotonic() * 1000):
            return _counted(Verified.UNKNOWN)
        self._in_flight += 1
        try:
            return _counted(await self._ask(token))
        finally:
            self._in_flight -= 1
            metrics.show_breaker(self.breaker)

    async def _ask(self, token: str) -> Verified:
        try:
            async with asyncio.timeout(self._timeout_s):
                verified = _meaning(_read(await self._call(token)))
        except (TimeoutError, aiohttp.ClientError, OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
            return self._failed(repr(exc))
        except BaseException:
            self.breaker.withdrawn()
            raise
        if verified is Verified.UNKNOWN:
            return self._failed("the service does not accept the secret, or has an error")
        self.breaker.succeeded()
        return verified

    async def _call(self, token: str) -> bytes:
        if self._opened is None:
            self._opened = open_session(self._timeout_s, aiohttp.TCPConnector(limit=IN_FLIGHT_MAX))
        form = {"secret": self._secret, "response": token}
        async with self._opened.post(self._url, data=form, allow_redirects=False) as answer:
            content = await read_answer(answer)
            if answer.status >= 500 or answer.status in (301, 302, 307, 308, 404):
                raise aiohttp.ClientPayloadError(f"the captcha service answered {answer.status}")
            return content

    def _failed(self, error: str) -> Verified:
        self.breaker.failed(monotonic() * 1000)
        log.warning("captcha_not_verified", error=error)
        return Verified.UNKNOWN

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()


def _could_be_token(text: str) -> bool:
    """Tokens that the service might not read would look like failures of the service, and five of those open the
    breaker, which lets a puzzle replace the captcha."""
    return 0 < len(text) <= TOKEN_MAX and text.isascii() and text.isprintable() and " " not in text


def _meaning(answer: _Answer) -> Verified:
    codes = set(answer.error_codes)
    if answer.success:
        return Verified.YES
    if codes & _NOT_THE_BUYERS_FAULT:
        return Verified.UNKNOWN
    return Verified.USED if codes & _USED else Verified.NO


def _counted(verified: Verified) -> Verified:
    metrics.CAPTCHA_CHECKS.labels(verified).inc()
    return verified
