"""Every request passes through here: routing, limits, authentication, decoding, then its endpoint.

What an endpoint needs for this is declared in the table (http/contract/endpoints). Limits, request IDs, error answers
and the count of requests in flight are the same for all.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from time import monotonic, perf_counter

import msgspec
import structlog

from holdfast.access.identity import Authenticator, Caller, Unauthorized
from holdfast.bootstrap.clicks import start_clicks
from holdfast.bootstrap.services import Services
from holdfast.errors import EngineError
from holdfast.http.contract import problems
from holdfast.http.contract.decoding import Wrong, wrong_value
from holdfast.http.contract.endpoint import Access, Endpoint, IfUnknown, Priority, RateClass
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.endpoints.room import JOIN
from holdfast.http.contract.headers import IDEMPOTENCY_KEY_HEADER
from holdfast.http.contract.message import SEEN, Answer, ClientDisconnected, Request, refuse
from holdfast.http.contract.path_parameters import PATH_PARAMETERS
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import from_engine, invalid_request
from holdfast.http.contract.schemas.values import IdempotencyKey
from holdfast.http.protection.admission import AdmissionControl, build_admission
from holdfast.http.protection.limits import Passed
from holdfast.http.server.cross_origin import CrossOrigin
from holdfast.http.server.handlers import handlers_of
from holdfast.http.server.reading import request_id_from
from holdfast.http.server.refused import RefusalNotes
from holdfast.http.server.router import Found, Handler, Route, Router, is_key
from holdfast.runtime import metrics
from holdfast.runtime.garbage import tune_gc
from holdfast.runtime.log import printable
from holdfast.streams.clicks.recorder import ClickRecorder

log = structlog.get_logger()

# Unknown paths are shed first.
_NOWHERE = (Priority.CONSOLE, RateClass.NORMAL)
_ACCEPTED = 202
_REVOKED = "This token was revoked. Sign in again, or ask the shop."


class App:
    def __init__(
        self,
        services: Services,
        admission: AdmissionControl | None = None,
        instead: Mapping[Endpoint, Handler] | None = None,
    ) -> None:
        """`instead`: other handlers for some endpoints."""
        tune_gc()
        admission = admission or build_admission(services.settings)
        endpoints = [one for one in ENDPOINTS if services.settings.demo or not one.is_demo]
        self._router = Router(endpoints, {**handlers_of(services, admission), **(instead or {})})
        origins = services.settings.origins
        self._cross_origin = CrossOrigin(origins, self._router) if origins else None
        self._authenticator: Authenticator = services.authenticator
        self._revoked = services.control.revoked_buyers
        self._streams, self._reads = services.reservation_events, services.reads
        self._limits, self._shedder, self._reaper = admission.limits, admission.shedder, admission.reaper
        self._limiter = admission.shedder.limiter
        self._reaping = asyncio.create_task(self._reaper.agent().run())
        self.clicks = start_clicks(services.settings, services.catalogue)
        self.refused = RefusalNotes(services.refusals, services.catalogue)
        self._in_flight = 0
        self._idle = asyncio.Event()

    async def answer(self, request: Request) -> Answer | None:
        """The answer, or None if the client has disconnected."""
        if self._cross_origin is not None:
            preflight = self._cross_origin.preflight(request)
            if preflight is not None:
                return _finished(preflight, request.request_id)
        self._in_flight += 1
        began = monotonic()
        found = self._router.find(request.method, request.path)
        try:
            answer = await self._admit(request, found)
            if self._reads.has_tokens:
                await self._add_token(request, found, answer)
        except ClientDisconnected:
            log.debug("client_disconnected", request_id=request.request_id)
            return None
        except Exception as exc:
            answer = self._refuse(exc, request, found)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
        if self._cross_origin is not None:
            self._cross_origin.mark(request, answer)
        if found is None:
            return _finished(answer, request.request_id)
        if self.clicks is not None:
            _note_click(self.clicks, request, found, answer)
        answer.headers.append(("x-request-id", request.request_id))
        metrics.time_request(found.route.timings, answer.status, monotonic() - began)
        return answer

    def find(self, request: Request) -> Found | None:
        return self._router.find(request.method, request.path)

    async def ask(self, request: Request) -> Answer:
        """For a request that another application of this process has admitted, and whose caller it knows."""
        found = self.find(request)
        assert found is not None
        try:
            return await _call(request, found)
        except ClientDisconnected:
            raise
        except Exception as exc:
            return refuse(_problem_of(exc, request, found))

    def refuse_unread(self, problem: Problem, request_id: str | None) -> Answer:
        """The response to a request that could not be read."""
        return _finished(refuse(problem), request_id_from(request_id))

    async def _admit(self, request: Request, found: Found | None) -> Answer:
        """Past the limits. A body is read before a place is taken in the limiter, because it may arrive slowly."""
        priority, rate = _NOWHERE if found is None else (found.route.endpoint.priority, found.route.endpoint.rate)
        if priority is not None and not self._limiter.has_room(priority) and not _is_let_pass(request, found):
            return await self._shed(priority)
        # A front may have read the token already.
        caller, passed = request.caller or self._authenticator.recognise(request.authorization), None
        request.caller = caller
        if caller is None or caller.buyer_id is not None or caller.is_revocable:
            passed = await self._limit(request, caller, rate)
            if isinstance(passed, Answer):
                self.refused.count_shed(problems.RATE_LIMITED.reason)
                return passed
        if request.has_body:
            await self._reaper.read_body(request)
        if priority is None or request.is_shed:
            return await self._serve(request, found)
        if not self._limiter.enter(priority):
            return await (self._serve(request, found) if _is_let_pass(request, found) else self._shed(priority))
        entered = monotonic()
        try:
            answer = await self._serve(request, found)
        except ClientDisconnected:
            raise
        except Exception as exc:
            # Here, so that a refusal carries the limits' headers like any other answer.
            answer = self._refuse(exc, request, found)
        finally:
            self._shedder.leave(priority, entered)
        if passed is not None:
            answer.headers += passed.headers
        return answer

    def _shed(self, priority: Priority) -> Awaitable[Answer]:
        self.refused.count_shed(problems.BUSY.reason)
        return self._shedder.refuse(priority)

    def _refuse(self, exc: Exception, request: Request, found: Found | None) -> Answer:
        problem = _problem_of(exc, request, found)
        self.refused.note(request, found, problem)
        return refuse(problem)

    async def _add_token(self, request: Request, found: Found | None, answer: Answer) -> None:
        """The token of a write. If the position cannot be read, a response without it is better than none."""
        if request.method == "GET" or answer.status >= 300 or request.is_shed or _is_stamp(found, answer):
            return
        with suppress(EngineError):
            answer.headers.append((SEEN, await self._reads.token()))

    async def _limit(self, request: Request, caller: Caller | None, rate: RateClass) -> Passed | Answer | None:
        """Before a caller is looked up, and after that failed: a forged key does not exempt from limits."""
        if caller is not None and caller.is_revocable:
            if await self._authenticator.is_still_valid(request.authorization or "", caller):
                return None
            request.caller = caller = None
        refused = self._limits.check_address(request, rate)
        if refused is not None or request.authorization is None:
            return refused
        if caller is None:
            try:
                request.caller = caller = await self._authenticator.look_up(request.authorization)
            except Unauthorized as exc:
                # Public endpoints need no caller; the others refuse with this message.
                request.unauthorized = str(exc)
                return self._limits.count_unauthorized(request, rate)
            except EngineError:
                if rate is RateClass.LOOK:
                    return None
                raise
        if self._revoked.includes(caller):
            request.caller, request.unauthorized = None, _REVOKED
            return self._limits.count_unauthorized(request, rate)
        return self._limits.check_buyer(request.path, caller, rate)

    def _serve(self, request: Request, found: Found | None) -> Awaitable[Answer]:
        if found is None or found.route.endpoint.is_logged:
            return self._logged(request, found)
        return self._dispatch(request, found)

    async def _logged(self, request: Request, found: Found | None) -> Answer:
        started = perf_counter()
        try:
            answer = await self._dispatch(request, found)
        except ClientDisconnected:
            raise
        except Exception as exc:
            answer = self._refuse(exc, request, found)
        log.info(
            "request",
            method=request.method,
            path=printable(request.path),
            status=answer.status,
            ms=round((perf_counter() - started) * 1000, 1),
            request_id=request.request_id,
        )
        return answer

    def _dispatch(self, request: Request, found: Found | None) -> Awaitable[Answer]:
        if found is None:
            raise self._nowhere(request)
        access = found.route.endpoint.access
        if request.caller is None and (
            access.is_required or (access.is_optional and request.authorization is not None)
        ):
            return self._identify_and_call(request, found)
        return _call(request, found)

    async def _identify_and_call(self, request: Request, found: Found) -> Answer:
        try:
            request.caller = await self._identify(request)
        except Unauthorized as exc:
            raise Problem(problems.UNAUTHORIZED, str(exc)) from exc
        return await _call(request, found)

    def _identify(self, request: Request) -> Awaitable[Caller]:
        if request.unauthorized is not None:
            raise Unauthorized(request.unauthorized)
        return self._authenticator.identify(request.authorization)

    def _nowhere(self, request: Request) -> Problem:
        allowed = self._router.allowed(request.path)
        if not allowed:
            return Problem(problems.NOT_FOUND)
        return MethodNotAllowed(allowed)

    def end_streams(self) -> None:
        """Call it before the server stops, which would wait for open streams."""
        self._streams.end_all()

    async def finish(self) -> None:
        """Wait until every request in flight is answered."""
        while self._in_flight:
            self._idle.clear()
            await self._idle.wait()
        self._reaping.cancel()
        if self.clicks is not None:
            await asyncio.to_thread(self.clicks.stop)


def _note_click(clicks: ClickRecorder, request: Request, found: Found, answer: Answer) -> None:
    """Actions of visitors, not of services on their behalf."""
    caller = request.caller
    if caller is None or caller.buyer_id is not None:
        buyer_id = None if caller is None else caller.buyer_id
        clicks.note(found.route.endpoint.operation_id, found.values, buyer_id, answer.status, answer.body)


def _is_stamp(found: Found | None, answer: Answer) -> bool:
    """Whether it is a provisional ticket, for which nothing was written."""
    return found is not None and found.route.endpoint is JOIN and answer.status == _ACCEPTED


def _finished(answer: Answer, request_id: str) -> Answer:
    """A response of no endpoint, so nothing is timed."""
    answer.headers.append(("x-request-id", request_id))
    metrics.count_request(answer.status)
    return answer


def _is_let_pass(request: Request, found: Found | None) -> bool:
    """Although it is shed. Its endpoint answers without waiting for anything."""
    request.is_shed = found is not None and found.route.endpoint.is_answered_when_shed
    return request.is_shed


class MethodNotAllowed(Problem):
    def __init__(self, allowed: list[str]) -> None:
        super().__init__(problems.METHOD_NOT_ALLOWED)
        self._allowed = allowed

    def headers(self) -> list[tuple[str, str]]:
        return [*super().headers(), ("allow", ", ".join(self._allowed))]


def _call(request: Request, found: Found) -> Awaitable[Answer]:
    """The endpoint's pending response. Access is checked before the body is decoded."""
    route, values = found.route, found.values
    if route.endpoint.access.is_required:
        assert request.caller is not None
        _authorise(request.caller, route.endpoint.access)
    if route.takes_key or route.checks:
        _check(request, found)
    try:
        if route.body is not None:
            return route.handler(request, *values, route.body.decode(request.body))
        if route.query is not None:
            return route.handler(request, *values, route.query.decode(request.query))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _invalid(request, found) from exc
    return route.handler(request, *values)


def _has_instead(request: Request, route: Route) -> bool:
    return route.key_instead is not None and request.header(route.key_instead) is not None


def _check(request: Request, found: Found) -> None:
    """The idempotency key and the path's parameters."""
    route, key = found.route, request.idempotency_key
    if route.takes_key and key is None and route.key_missing is not None and not _has_instead(request, route):
        raise Problem(route.key_missing)
    if route.takes_key and key is not None and not is_key(key):
        raise _invalid(request, found)
    if route.checks and not all(is_valid(value) for is_valid, value in zip(route.checks, found.values, strict=True)):
        raise _invalid(request, found)


def _authorise(caller: Caller, access: Access) -> None:
    if caller.buyer_id is not None:
        if access.buyers:
            return
    elif not access.services:
        raise Problem(problems.FORBIDDEN, access.buyers_only)
    elif access.admits(caller.scopes, is_legacy=caller.is_legacy):
        return
    raise Problem(problems.FORBIDDEN, f"This needs a service key with the scope `{access.scope}`.")


def _invalid(request: Request, found: Found) -> Problem:
    """Names every error in path, headers, query and body."""
    route, wrong = found.route, Wrong()
    if route.checks:
        for name, value in zip(route.endpoint.path_parameters, found.values, strict=True):
            wrong |= wrong_value(PATH_PARAMETERS[name], value, name)
    if route.takes_key and request.idempotency_key is not None:
        wrong |= wrong_value(IdempotencyKey, request.idempotency_key, IDEMPOTENCY_KEY_HEADER)
    if route.query is not None:
        wrong |= route.query.wrong_in(request.query)
    if route.body is not None:
        wrong |= route.body.wrong_in(request.body)
    return invalid_request(wrong)


def _problem_of(exc: Exception, request: Request, found: Found | None) -> Problem:
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, EngineError):
        return from_engine(exc, IfUnknown.REPEAT if found is None else found.route.endpoint.if_unknown)
    log.error("request_failed", path=printable(request.path), request_id=request.request_id, exc_info=exc)
    return Problem(problems.INTERNAL_ERROR)
