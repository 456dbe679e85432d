"""A collector: an HTTP server that decodes the spans it is sent."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Received:
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    # Trace and span.
    links: tuple[tuple[str, str], ...]
    attributes: dict[str, Any] = field(hash=False)


class Collector:
    def __init__(self) -> None:
        self.spans: list[Received] = []
        self._news = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _handler(collector) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                given = ExportTraceServiceRequest()
                given.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
                collector._add(given)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_said: Any) -> None:
                """What was received is kept, not printed."""

        return Handler

    def _add(self, given: ExportTraceServiceRequest) -> None:
        found = [span for of in given.resource_spans for scope in of.scope_spans for span in scope.spans]
        with self._news:
            self.spans += [_received(span) for span in found]
            self._news.notify_all()

    def until(self, seen: Callable[[dict[str, list[Received]]], bool], trace_id: str) -> dict[str, list[Received]]:
        """The spans of a trace by name, once they are as wanted."""
        with self._news:
            if not self._news.wait_for(lambda: seen(self.of(trace_id)), PATIENCE_S):
                raise TimeoutError(f"only these came: {sorted(self.of(trace_id))}")
            return self.of(trace_id)

    def of(self, trace_id: str) -> dict[str, list[Received]]:
        found: dict[str, list[Received]] = {}
        for span in self.spans:
            if span.trace_id == trace_id:
                found.setdefault(span.name, []).append(span)
        return found

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _received(span: Any) -> Received:
    values = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
    links = tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links)
    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
    return Received(span.name, *ids, links, values)


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.run, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.close()
        thread.join()
