"""A process that speaks HTTP and asks the core.

It reads requests, their bodies and buyers' tokens, and sends the core's responses. Everything that is counted or
decided for all clients together, including limits, is left to the core. Without a core it responds that it is not
ready; the outcome of requests in flight when the core was lost is unknown.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import structlog
import uvloop

from holdfast.access.identity import BuyerKeys, Unauthorized
from holdfast.errors import EngineError, OutcomeUnknown, Unavailable
from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import IfUnknown
from holdfast.http.contract.endpoints import ENDPOINTS
from holdfast.http.contract.message import Answer, ClientDisconnected, Request, refuse
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import from_engine
from holdfast.http.protection.slow_requests import SlowRequestReaper
from holdfast.http.server.cross_origin import CrossOrigin
from holdfast.http.server.fronts.attempts import RefusingSales
from holdfast.http.server.fronts.channel import (
    Answered,
    Asked,
    Attempted,
    Begun,
    Buyer,
    Channel,
    Left,
    Taken,
    ToFront,
    Unsure,
    heard_by_front,
)
from holdfast.http.server.listening import Listener, stop_on_signal
from holdfast.http.server.reading import request_id_from
from holdfast.http.server.router import Router
from holdfast.http.server.rsgi import RsgiConnection
from holdfast.http.server.starting import StartingApp
from holdfast.runtime.garbage import tune_gc
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings

log = structlog.get_logger()

# How soon a front looks again whether there is a core.
RETRY_S = 0.02
# A front that has not found a core by now listens all the same, to say so.
PATIENCE_S = 3.0

# Headers that the core gets otherwise, or does not need.
_READ_HERE = frozenset(
    {"accept", "authorization", "connection", "content-length", "content-type", "idempotency-key", "user-agent"}
)
# msgpack has no larger integers.
_SENT_TIERS = range(-(2**63), 2**63)
_SAFE_METHODS = frozenset({"GET", "HEAD"})


class Core:
    """The core, as a front sees it: there, or not there."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel: Channel[ToFront] | None = None
        self._numbers = count(1)
        # None: the core is unsure of an attempt.
        self._answers: dict[int, asyncio.Future[Answer | None]] = {}
        self._streams: dict[int, asyncio.Queue[bytes | None]] = {}
        self._lost = asyncio.Event()
        self.found = asyncio.Event()

    @property
    def is_there(self) -> bool:
        return self._channel is not None

    async def keep_looking(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(OSError):
                _, channel = await loop.create_unix_connection(self._new_channel, str(self._socket))
                if not self._lost.is_set():
                    self._channel = channel
                    self.found.set()
                await self._lost.wait()
                self._lost.clear()
            await asyncio.sleep(RETRY_S)

    def new_number(self) -> int:
        return next(self._numbers)

    def ask(self, asked: Asked | Attempted) -> "asyncio.Future[Answer | None]":
        if self._channel is None:
            raise Unavailable("the core was lost")
        answer = self._answers[asked.number] = asyncio.get_running_loop().create_future()
        self._channel.say(asked)
        return answer

    def leave(self, number: int) -> None:
        """The client no longer waits for the response, or for the rest of it."""
        was_open = self._answers.pop(number, None) or self._streams.pop(number, None)
        if was_open is not None and self._channel is not None:
            self._channel.say(Left(number))

    def end_streams(self) -> None:
        for portions in self._streams.values():
            portions.put_nowait(None)

    def _new_channel(self) -> Channel[ToFront]:
        return Channel(heard_by_front, self._hear, self._lose)

    def _hear(self, message: ToFront) -> None:
        number = message.number
        if isinstance(message, Answered):
            answer = self._answers.pop(number, None)
            if answer is not None and not answer.done():
                answer.set_result(Answer(message.status, message.headers, message.body))
        elif isinstance(message, Unsure):
            answer = self._answers.pop(number, None)
            if answer is not None and not answer.done():
                answer.set_result(None)
        elif isinstance(message, Begun):
            answer = self._answers.pop(number, None)
            if answer is not None and not answer.done():
                portions = self._streams[number] = asyncio.Queue()
                answer.set_result(Answer(message.status, message.headers, b"", self._stream(number, portions)))
        elif number in self._streams:
            self._streams[number].put_nowait(message.data)

    async def _stream(self, number: int, portions: "asyncio.Queue[bytes | None]") -> AsyncGenerator[bytes, None]:
        try:
            while (data := await portions.get()) is not None:
                yield data
                if self._channel is not None:
                    self._channel.say(Taken(number))
        finally:
            self.leave(number)

    def _lose(self) -> None:
        self._channel = None
        self._lost.set()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(OutcomeUnknown("the core was lost"))
        self.end_streams()
        log.warning("core_lost", unanswered=len(answers))


class FrontApp:
    def __init__(self, settings: Settings, core: Core) -> None:
        tune_gc()
        self._core = core
        secret = "" if settings.buyer_jwks_url else settings.buyer_secret_text()
        self._buyer_keys = BuyerKeys(secret, settings.buyer_jwks_url, settings.buyer_audience, settings.buyer_issuer)
        endpoints = [one for one in ENDPOINTS if settings.demo or not one.is_demo]
        self._router = Router(endpoints, dict.fromkeys(endpoints, _unused))
        self._refusing = RefusingSales(settings, self._router)
        self._cross_origin = CrossOrigin(settings.origins, self._router) if settings.origins else None
        self._reaper = SlowRequestReaper()
        self._reaping = asyncio.create_task(self._reaper.agent().run())
        self._absent: StartingApp | None = None
        self._in_flight = 0
        self._idle = asyncio.Event()

    def refuse_unread(self, problem: Problem, request_id: str | None) -> Answer:
        return _numbered(refuse(problem), request_id_from(request_id))

    async def answer(self, request: Request) -> Answer | None:
        """The answer, or None if the client has disconnected."""
        if not self._core.is_there:
            self._absent = self._absent or StartingApp()
            return self._shared(request, await self._absent.answer(request))
        self._absent = None
        self._in_flight += 1
        try:
            # First: a token that expires while its request is on the way was valid when it came.
            buyer = await self._read_token(request)
            if request.has_body:
                await self._reaper.read_body(request)
            return await self._ask(request, buyer)
        except ClientDisconnected:
            return None
        except Problem as problem:
            return self._refuse(request, problem)
        except EngineError as exc:
            return self._refuse(request, from_engine(exc, self._if_unknown(request)))
        except Exception:
            log.exception("request_failed", path=request.path[:200])
            return self._refuse(request, Problem(problems.INTERNAL_ERROR))
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    def _refuse(self, request: Request, problem: Problem) -> Answer:
        return self._shared(request, _numbered(refuse(problem), request.request_id))

    def _shared(self, request: Request, answer: Answer) -> Answer:
        """What the core did not answer: it marks its own answers for pages of other origins."""
        if self._cross_origin is not None:
            self._cross_origin.mark(request, answer)
        return answer

    async def _ask(self, request: Request, buyer: Buyer | None) -> Answer:
        core, refusing = self._core, self._refusing
        attempt = None if buyer is None else refusing.attempt(core.new_number(), request, buyer)
        if attempt is not None:
            refused = await self._wait(request, attempt)
            if refused is not None:
                return refused
            refusing.forget(request)
        answer = await self._wait(request, _whole(core.new_number(), request, buyer))
        assert answer is not None
        refusing.note(request, answer)
        return answer

    async def _wait(self, request: Request, asked: Asked | Attempted) -> Answer | None:
        answer = self._core.ask(asked)
        try:
            return await self._reaper.wait(answer, request.connection)
        except OutcomeUnknown as exc:
            # An attempt changes nothing.
            if request.method in _SAFE_METHODS or isinstance(asked, Attempted):
                raise Unavailable(str(exc)) from exc
            raise
        finally:
            if answer.cancelled():
                self._core.leave(asked.number)

    async def _read_token(self, request: Request) -> Buyer | None:
        """Here, because checking a signature costs more than most of what the core does for a request."""
        scheme, _, token = (request.authorization or "").partition(" ")
        if scheme.lower() != "bearer" or token.count(".") != 2 or token != token.strip():
            return None
        try:
            caller, _ = await self._buyer_keys.identify(token)
        except Unauthorized as exc:
            request.unauthorized = str(exc)
            return None
        except EngineError:
            return None  # The core finds out the same, and knows whether it matters.
        assert caller.buyer_id is not None
        if caller.tier not in _SENT_TIERS:
            return None  # The core reads it.
        return caller.buyer_id, caller.tier, caller.stripe_customer, caller.account_created_at, caller.token_id

    def _if_unknown(self, request: Request) -> IfUnknown:
        found = self._router.find(request.method, request.path)
        return IfUnknown.REPEAT if found is None else found.route.endpoint.if_unknown

    def end_streams(self) -> None:
        self._core.end_streams()

    async def finish(self) -> None:
        while self._in_flight:
            self._idle.clear()
            await self._idle.wait()
        self._reaping.cancel()


def _whole(number: int, request: Request, buyer: Buyer | None) -> Asked:
    connection = request.connection
    assert isinstance(connection, RsgiConnection)
    return Asked(
        number,
        request.method,
        request.path,
        request.query,
        _passed_on(connection),
        connection.peer(),
        request.request_id,
        request.authorization,
        request.idempotency_key,
        request.body,
        buyer,
        request.unauthorized,
        request.arrived,
    )


def _passed_on(connection: RsgiConnection) -> list[tuple[str, str | None]]:
    """Those that cannot be read come first, as the first value of a header counts."""
    cannot_be_read: list[tuple[str, str | None]] = [(name, None) for name in connection.unreadable()]
    return cannot_be_read + [(name, value) for name, value in connection.headers() if name not in _READ_HERE]


async def _unused(*_: object) -> Answer:
    raise AssertionError("the core answers")


def _numbered(answer: Answer, request_id: str) -> Answer:
    answer.headers.append(("x-request-id", request_id))
    return answer


def run_front(settings: Settings, host: str, port: int, socket: Path, supervisor: Pipe) -> None:
    set_up_logging(settings.log_level)
    uvloop.run(_serve(settings, host, port, socket, supervisor))


async def _serve(settings: Settings, host: str, port: int, socket: Path, supervisor: Pipe) -> None:
    stopping = asyncio.Event()
    stop_on_signal(stopping.set, supervisor)
    core, listener = Core(socket), Listener(host, port)
    app = FrontApp(settings, core)
    looking = asyncio.create_task(core.keep_looking())
    either = [asyncio.create_task(event.wait()) for event in (core.found, stopping)]
    try:
        await asyncio.wait(either, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            await listener.serve(app, stopping)
    finally:
        await listener.close()
        for task in (looking, *either):
            task.cancel()
