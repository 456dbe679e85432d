"""Every request comes through here: the fast lane in front, everything else behind it.

Limits, request ids, error answers and the count of requests under way are the same for both lanes, and live here.
"""

import asyncio
import gc
from collections.abc import Awaitable
from time import monotonic, perf_counter

import structlog

from holdfast import metrics
from holdfast.bootstrap import House
from holdfast.errors import EngineError
from holdfast.http.fast_lane import FastLane
from holdfast.http.identity import Caller, Unauthorized
from holdfast.http.limits import Passed, is_look
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, from_engine, internal_error
from holdfast.http.requests import Answer, CallerGone, Request, refuse
from holdfast.http.sale_lane import SaleLane
from holdfast.http.shedding import priority_of
from holdfast.http.slow_lane import SlowLane

log = structlog.get_logger()

# Requests leave almost no cycles behind, so looking for them this rarely keeps memory flat all the same.
_COLLECT_AFTER = 50_000


def rest_collector() -> None:
    """What is loaded now stays: walking it again and again took a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 100)


class App:
    def __init__(self, house: House) -> None:
        rest_collector()
        self._patrol = Patrol(house.door.shedder.tend)
        self._patrolling = asyncio.create_task(self._patrol.run())
        self._fast = FastLane(house, self._patrol)
        self._sales = SaleLane(house, self._patrol)
        self._slow = SlowLane(house, self._patrol)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._doorkeeper = house.doorkeeper
        self._limits, self._shedder = house.door.limits, house.door.shedder
        self._limiter = house.door.shedder.limiter

    async def answer(self, request: Request) -> Answer | None:
        """The answer, or None if there is nobody left to tell."""
        self._under_way += 1
        try:
            answer = await self._admit(request)
        except CallerGone:
            log.debug("caller_gone", request_id=request.request_id)
            return None
        except Exception as exc:
            answer = refuse(_problem_of(exc, request))
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
        if answer.status == 401:
            self._limits.note_wrong_key(request)
        answer.headers.append(("x-request-id", request.request_id))
        metrics.count_request(answer.status)
        return answer

    async def _admit(self, request: Request) -> Answer:
        """Past the limits and the crowd. A body is read before a place inside is taken: it may take its time."""
        priority = priority_of(request.method, request.path)
        if priority is not None and not self._limiter.has_room(priority):
            return await self._shedder.refuse(priority)
        caller, passed = self._doorkeeper.recognise(request.authorization), None
        request.caller = caller
        if caller is None or caller.buyer_id is not None:
            passed = await self._limit(request, caller)
            if isinstance(passed, Answer):
                return passed
        if request.has_body:
            await self._patrol.read_body(request)
        if priority is None:
            return await self._serve(request)
        if not self._limiter.enter(priority):
            return await self._shedder.refuse(priority)
        entered = monotonic()
        try:
            answer = await self._serve(request)
        except CallerGone:
            raise
        except Exception as exc:
            # Here, so that a refusal tells as much of the limits as any other answer, whichever lane it comes from.
            answer = refuse(_problem_of(exc, request))
        finally:
            self._shedder.leave(priority, entered)
        if passed is not None:
            answer.headers += passed.headers
        return answer

    async def _limit(self, request: Request, caller: Caller | None) -> Passed | Answer | None:
        refused = self._limits.check_address(request)
        if refused is not None or request.authorization is None:
            return refused
        if caller is None:
            try:
                request.caller = caller = await self._doorkeeper.identify(request.authorization)
            except Unauthorized:
                return None  # What is public needs no caller; the rest is refused in its own words.
            except EngineError:
                if is_look(request):
                    return None
                raise
        return self._limits.check_buyer(request, caller)

    def _serve(self, request: Request) -> Awaitable[Answer]:
        return self._fast.answer(request) or self._sales.answer(request) or self._answer_slowly(request)

    def end_streams(self) -> None:
        """To be told before the server is asked to stop: it would wait for those who listen."""
        self._sales.end_streams()

    async def finish(self) -> None:
        """Wait until every request under way is answered."""
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()
        self._patrolling.cancel()

    async def _answer_slowly(self, request: Request) -> Answer:
        started = perf_counter()
        answer = await self._slow.answer(request)
        log.info(
            "request",
            method=request.method,
            path=request.path,
            status=answer.status,
            ms=round((perf_counter() - started) * 1000, 1),
            request_id=request.request_id,
        )
        return answer


def _problem_of(exc: Exception, request: Request) -> Problem:
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, EngineError):
        return from_engine(exc, f"{request.method} {request.path}")
    log.error("request_failed", path=request.path, request_id=request.request_id, exc_info=exc)
    return internal_error()
