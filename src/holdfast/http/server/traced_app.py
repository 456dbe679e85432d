"""The application of a server that traces.

Whether a request is traced is decided before anything is recorded: a caller who sends `traceparent` has decided it,
otherwise `HOLDFAST_OTEL_SAMPLE_PERCENT` does. A request that is not traced is handed on as it is.

Anyone may send `traceparent`, so there is a limit to what is traced in a second, beyond which nothing is.
"""

from collections.abc import Coroutine, Mapping
from random import random
from time import monotonic, time_ns
from typing import Any

from holdfast.bootstrap.services import Services
from holdfast.bootstrap.tracing import Tracing
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.message import Answer, Request
from holdfast.http.contract.problem import MEDIA_TYPE, Problem
from holdfast.http.protection.admission import AdmissionControl
from holdfast.http.server.app import App
from holdfast.http.server.router import Handler
from holdfast.runtime import metrics
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

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer | None]:
        """Not a coroutine itself: another one would cost each request more than the decision does."""
        try:
            text = request.connection.header(TRACEPARENT)
        except Problem:
            text = None
        given = None if text is None else read_traceparent(text)
        is_sampled = random() < self._ratio if given is None else given.is_sampled
        if not is_sampled or self._is_over_limit():
            return super().answer(request)
        return self._answer_traced(request, given)

    def _is_over_limit(self) -> bool:
        second = int(monotonic())
        if second != self._second:
            self._second, self._traced_in_it = second, 0
        self._traced_in_it += 1
        return self._traced_in_it > TRACES_PER_SECOND_MAX

    async def _answer_traced(self, request: Request, given: Given | None) -> Answer | None:
        span = self._start(request, given)
        token = enter_trace(span.context)
        try:
            answer = await super().answer(request)
            if answer is not None:
                note_answer(span, answer)
        finally:
            leave_trace(token)
            span.end()
        if answer is not None:
            self._note_exemplar(request, answer, span)
        return answer

    def _note_exemplar(self, request: Request, answer: Answer, span: Span) -> None:
        found = self._router.find(request.method, request.path)
        if found is not None:
            took_s = monotonic() - request.arrived
            metrics.note_exemplar(found.route.endpoint.operation_id, answer.status, took_s, span.context.trace_id)

    def _start(self, request: Request, given: Given | None) -> Span:
        """From when it came: a front may have had it for a while."""
        waited_ns = round((monotonic() - request.arrived) * 1e9)
        found = self._router.find(request.method, request.path)
        route = _NOT_FOUND if found is None else found.route.endpoint.path
        about: Attributes = {
            "http.request.method": request.method,
            "http.route": route,
            "holdfast.request_id": request.request_id,
        }
        parent = None if given is None else given.context
        return self._tracer.start(
            f"{request.method} {route}", parent, about, kind=Kind.SERVER, at_ns=time_ns() - max(waited_ns, 0)
        )


def note_answer(span: Span, answer: Answer) -> None:
    span.note("http.response.status_code", answer.status)
    if answer.status >= 500:
        span.fail(str(answer.status))
    if ("content-type", MEDIA_TYPE) in answer.headers and answer.body.endswith(b"}"):
        answer.body = b'%b,"trace_id":"%b"}' % (answer.body[:-1], span.context.trace_id.encode())
