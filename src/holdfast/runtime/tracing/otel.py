"""Spans by OpenTelemetry, sent as OTLP over HTTP. Imported only if `HOLDFAST_OTEL_ENDPOINT` is set.

Spans are sent by a thread, in batches. If the collector does not answer, the oldest are dropped beyond `QUEUE_MAX`, and
a warning says so at most once a minute; nothing waits for it, and the server stops in time.

Whether a request is traced is decided before anything here is called, so everything that comes here is recorded.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from random import getrandbits
from threading import Thread
from time import monotonic, time_ns
from urllib.parse import urlsplit

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from holdfast import __version__
from holdfast.runtime.tracing.context import TraceContext
from holdfast.runtime.tracing.tracer import NO_ATTRIBUTES, Attributes, Kind

log = structlog.get_logger()

# Of one request to the collector, its retries included.
EXPORT_TIMEOUT_S = 3.0
# Some hundred traces.
QUEUE_MAX = 4_096
SEND_EVERY_MS = 1_000
# The server has to be gone within ten seconds, most of which are for requests in flight.
STOP_S = 1.5
WARN_EVERY_S = 60.0

_KINDS = {
    Kind.INTERNAL: trace.SpanKind.INTERNAL,
    Kind.SERVER: trace.SpanKind.SERVER,
    Kind.CLIENT: trace.SpanKind.CLIENT,
    Kind.PRODUCER: trace.SpanKind.PRODUCER,
}
_SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
_UNSET, _FAILED = trace.Status(trace.StatusCode.UNSET), trace.Status(trace.StatusCode.ERROR)
_SCOPE = InstrumentationScope("holdfast", __version__)


class OtelSpan:
    """The SDK's own span costs a request more than everything else that is done for it: limits, locks, samplers."""

    __slots__ = ("_attributes", "_began_ns", "_kind", "_links", "_name", "_parent", "_status", "_tracer", "context")

    def __init__(
        self,
        tracer: "OtelTracer",
        name: str,
        parent: TraceContext | None,
        attributes: Attributes,
        kind: Kind,
        links: Sequence[TraceContext],
        began_ns: int,
    ) -> None:
        self._tracer, self._name, self._parent, self._kind = tracer, name, parent, kind
        self._attributes, self._links, self._began_ns = dict(attributes), links, began_ns
        self._status = _UNSET
        trace_id = f"{getrandbits(128):032x}" if parent is None else parent.trace_id
        self.context = TraceContext(trace_id, f"{getrandbits(64):016x}")

    def note(self, name: str, value: str | float | bool) -> None:
        self._attributes[name] = value

    def fail(self, reason: str) -> None:
        self._attributes["error.type"] = reason
        self._status = _FAILED

    def end(self, at_ns: int | None = None) -> None:
        self._tracer.send(
            ReadableSpan(
                self._name,
                _span_context(self.context),
                None if self._parent is None else _span_context(self._parent),
                self._tracer.resource,
                self._attributes,
                links=[trace.Link(_span_context(link)) for link in self._links],
                kind=_KINDS[self._kind],
                status=self._status,
                start_time=self._began_ns,
                end_time=time_ns() if at_ns is None else at_ns,
                instrumentation_scope=_SCOPE,
            )
        )


class OtelTracer:
    def __init__(self, endpoint: str) -> None:
        _log_as_json()
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "holdfast"}
        self.resource = Resource.create(
            named | {"service.version": __version__, "service.instance.id": str(os.getpid())}
        )
        exporter = OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=EXPORT_TIMEOUT_S)
        self._processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE_MAX, schedule_delay_millis=SEND_EVERY_MS)
        self.send = self._processor.on_end

    def start(
        self,
        name: str,
        parent: TraceContext | None,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        kind: Kind = Kind.INTERNAL,
        links: Sequence[TraceContext] = (),
        at_ns: int | None = None,
    ) -> OtelSpan:
        return OtelSpan(self, name, parent, attributes, kind, links, time_ns() if at_ns is None else at_ns)

    def stop(self) -> None:
        """Send what is left, if the collector takes it in time. Blocks."""
        stopping = Thread(target=self._processor.shutdown, name="otel-stop", daemon=True)
        stopping.start()
        stopping.join(STOP_S)


def traces_url(endpoint: str) -> str:
    """The standard path, unless the endpoint has one."""
    return endpoint if urlsplit(endpoint).path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"


def _span_context(context: TraceContext) -> trace.SpanContext:
    return trace.SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=True, trace_flags=_SAMPLED)


class _ToStructlog(logging.Handler):
    """The SDK warns about each batch that it cannot send; once in a while is enough."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._warned_at = -WARN_EVERY_S

    def emit(self, record: logging.LogRecord) -> None:
        if monotonic() - self._warned_at < WARN_EVERY_S:
            return
        self._warned_at = monotonic()
        with suppress(Exception):
            log.warning("traces_not_sent", error=record.getMessage())


def _log_as_json() -> None:
    sdk = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _ToStructlog) for handler in sdk.handlers):
        sdk.addHandler(_ToStructlog())
        sdk.propagate = False
