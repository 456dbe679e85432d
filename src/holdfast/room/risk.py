"""Asks the shop's risk service about each person who joins (docs/RATE_LIMITS.md).

The model. One POST with a `Visit`, within a budget of some 50 ms, and one of four verdicts. A verdict is kept for some
minutes for the same buyer and sale, so that a page that joins again is treated the same and costs no call.

What happens when it fails. It fails open: a call that is late, refused or not understood allows the join. After several
failures in a row the breaker opens, and only a probe now and then waits for the service. Joins beyond the service's
capacity are allowed, too. All of that is counted (`holdfast_risk_checks_total`).
"""

import asyncio
from collections import OrderedDict
from time import monotonic

import aiohttp
import msgspec
import structlog
from msgspec import Struct

from holdfast.domain.room.risk import RiskVerdict, Visit
from holdfast.payments.answer import open_session, read_answer
from holdfast.runtime import metrics
from holdfast.runtime.breaker import Breaker

log = structlog.get_logger()

FAILURES_MAX = 5
LEAST_PAUSE_MS, MOST_PAUSE_MS = 1_000, 30_000
# Calls at once. A service that answers in 10 ms then gets 12,800 per second from each process.
IN_FLIGHT_MAX = 128
KEPT_S, KEPT_MAX = 600.0, 200_000


class _Answer(Struct, frozen=True):
    verdict: RiskVerdict
    reason: str = ""


_read = msgspec.json.Decoder(_Answer).decode
_write = msgspec.json.Encoder().encode


class RiskHook:
    def __init__(self, url: str, token: str = "", timeout_s: float = 0.05) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._opened: aiohttp.ClientSession | None = None
        self._in_flight = 0
        self._kept: OrderedDict[tuple[str, str], tuple[float, RiskVerdict]] = OrderedDict()
        self.breaker = Breaker(
            "risk", failures_max=FAILURES_MAX, least_pause_ms=LEAST_PAUSE_MS, most_pause_ms=MOST_PAUSE_MS
        )
        metrics.show_breaker(self.breaker)

    async def assess(self, visit: Visit, request_id: str) -> RiskVerdict:
        key = (visit.sale_id, visit.buyer_id)
        kept = self._kept.get(key)
        if kept is not None and monotonic() < kept[0]:
            return kept[1]
        if self._in_flight >= IN_FLIGHT_MAX:
            return _allowed("busy")
        if not self.breaker.allows(monotonic() * 1000):
            return _allowed("breaker_open")
        self._in_flight += 1
        try:
            answer = await self._ask(visit, request_id)
        finally:
            self._in_flight -= 1
            metrics.show_breaker(self.breaker)
        if answer is None:
            return RiskVerdict.ALLOW
        self._keep(key, answer.verdict)
        metrics.RISK_CHECKS.labels(answer.verdict).inc()
        if answer.verdict is not RiskVerdict.ALLOW:
            log.info("risk_verdict", request_id=request_id, verdict=answer.verdict, reason=answer.reason[:200])
        return answer.verdict

    async def _ask(self, visit: Visit, request_id: str) -> _Answer | None:
        """None if there was no valid answer in time."""
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = _read(await self._call(visit, request_id))
        except TimeoutError:
            self._failed("timeout", "late")
            return None
        except (aiohttp.ClientError, OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
            self._failed("error", repr(exc))
            return None
        except BaseException:
            self.breaker.withdrawn()
            raise
        if not self.breaker.is_closed:
            log.warning("risk_service_up")
        self.breaker.succeeded()
        return answer

    async def _call(self, visit: Visit, request_id: str) -> bytes:
        if self._opened is None:
            self._opened = open_session(2 * self._timeout_s, aiohttp.TCPConnector(limit=IN_FLIGHT_MAX))
        headers = self._headers | {"X-Request-Id": request_id}
        calling = self._opened.post(self._url, data=_write(visit), headers=headers, allow_redirects=False)
        async with calling as answer:
            if answer.status != 200:
                raise aiohttp.ClientPayloadError(f"the risk service answered {answer.status}")
            return await read_answer(answer)

    def _failed(self, result: str, error: str) -> None:
        was_closed = self.breaker.is_closed
        self.breaker.failed(monotonic() * 1000)
        if was_closed and not self.breaker.is_closed:
            log.warning("risk_service_down", error=error)
        _allowed(result)

    def _keep(self, key: tuple[str, str], verdict: RiskVerdict) -> None:
        if len(self._kept) >= KEPT_MAX:
            self._kept.popitem(last=False)
        self._kept[key] = (monotonic() + KEPT_S, verdict)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()


def _allowed(result: str) -> RiskVerdict:
    """Allow it without a verdict."""
    metrics.RISK_CHECKS.labels(result).inc()
    return RiskVerdict.ALLOW
