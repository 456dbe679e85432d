"""The application of a server that traces.

Whether a request is traced is decided once it has passed the limits and its caller is known, before anything is
recorded. A service key or a trusted proxy that sends `traceparent` has decided it. For everyone else, whatever they
send, `HOLDFAST_OTEL_SAMPLE_PERCENT` does: otherwise strangers could use up what is traced in a second, and nobody
else's request would be. A request that is not traced is handed on as it is.
"""

from collections.abc import Awaitable, Mapping
from random import random
from time import monotonic, time_ns

from holdfast.bootstrap.services import Services
from holdfast.bootstrap.tracing import Tracing
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.message import Answer, ClientDisconnected, Request
from holdfast.http.contract.problem import MEDIA_TYPE, Problem
from holdfast.http.protection.admission import AdmissionControl
from holdfast.http.server.app import App
from holdfast.http.server.router import Found, Handler
from holdfast.runtime import metrics
from holdfast.runtime.client_address import ClientAddresses
from holdfast.runtime.tracing.context import TRACEPARENT, Given, enter_trace, leave_trace, read_traceparent
from holdfast.runtime.tracing.tracer import Attributes, Kind, Span

# A traced request costs some 0.3 ms of CPU time more than others: this is 1.5 % of a core, however many come.
TRACES_PER_SECOND_MAX = 50
_NOT_FOUND = "other"


Handlers = Mapping[Endpoint, Handler]


def build_app(services: Services, admission: AdmissionControl | None = None, instead: Handlers | None = None) -> App:
    tracing = services.tracing
    return App(services, admission, instead) if tracing is None else TracedApp(services, tracing, admission, instead)


class TracedApp(App):
    def __init__(
        self,
        services: Services,
        tracing: Tracing,
        admission: AdmissionControl | None = None,
        instead: Handlers | None = None,
    ) -> None:
        super().__init__(services, admission, instead)
        self._tracer, self._ratio = tracing.tracer, tracing.ratio
        self._second, self._traced_in_it = 0, 0
        self._addresses = ClientAddresses(services.settings.trusted_networks, limit_loopback=True)

    def _serve(self, request: Request, found: Found | None) -> Awaitable[Answer]:
        """Not a coroutine itself: another one would cost each request more than the decision does."""
        try:
            text = request.connection.header(TRACEPARENT)
        except Problem:
            text = None
        given = None if text is None else read_traceparent(text)
        is_sampled = random() < self._ratio if given is None or not self._may_decide(request) else given.is_sampled
        if not is_sampled or self._is_over_limit():
            return super()._serve(request, found)
        return self._serve_traced(request, found, given)

    def _may_decide(self, request: Request) -> bool:
        caller = request.caller
        return (caller is not None and caller.buyer_id is None) or self._addresses.is_from_proxy(request.connection)

    def _is_over_limit(self) -> bool:
        second = int(monotonic())
        if second != self._second:
            self._second, self._traced_in_it = second, 0
        self._traced_in_it += 1
        return self._traced_in_it > TRACES_PER_SECOND_MAX

    async def _serve_traced(self, request: Request, found: Found | None, given: Given | None) -> Answer:
        span = self._start(request, found, given)
        token = enter_trace(span.context)
        try:
            answer = await self._served(request, found)
            note_answer(span, answer)
        finally:
            leave_trace(token)
            span.end()
        if found is not None:
            took_s = monotonic() - request.arrived
            operation_id = found.route.endpoint.operation_id
            metrics.note_exemplar(operation_id, answer.status, took_s, span.context.trace_id)
        return answer

    async def _served(self, request: Request, found: Found | None) -> Answer:
        """A refusal too, while its trace is known: what is noted of it names the trace."""
        try:
            return await super()._serve(request, found)
        except ClientDisconnected:
            raise
        except Exception as exc:
            return self._refuse(exc, request, found)

    def _start(self, request: Request, found: Found | None, given: Given | None) -> Span:
        """From when it came: a front may have had it for a while."""
        waited_ns = round((monotonic() - request.arrived) * 1e9)
        route = _NOT_FOUND if found is None else found.route.endpoint.path
        about: Attributes = {
            "http.request.method": request.method,
            "http.route": route,
            "holdfast.request_id": request.request_id,
        }
        # Of a trace that the caller records: any other would have no beginning.
        parent = given.context if given is not None and given.is_sampled else None
        return self._tracer.start(
            f"{request.method} {route}", parent, about, kind=Kind.SERVER, at_ns=time_ns() - max(waited_ns, 0)
        )


def note_answer(span: Span, answer: Answer) -> None:
    span.note("http.response.status_code", answer.status)
    if answer.status >= 500:
        span.fail(str(answer.status))
    if ("content-type", MEDIA_TYPE) in answer.headers and answer.body.endswith(b"}"):
        answer.body = b'%b,"trace_id":"%b"}' % (answer.body[:-1], span.context.trace_id.encode())
