"""A server that answers as a test says, drops connections, and notes what it was sent."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RESERVATION = {
    "reservation_id": "rsv_1", "sku_id": "sku", "owner_id": "ada", "quantity": 1, "status": "active",
    "created_at": "2030-01-31T18:00:00.000Z", "expires_at": "2030-01-31T18:05:00.000Z", "of_the_future": {"a": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Scripted:
    """None as the status: read the request, and close the connection without an answer."""

    status: int | None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0.0


def problem(status: int, reason: str, *, retryable: bool, **more: Any) -> Scripted:
    document = {"type": f"urn:holdfast:{reason}", "title": "T", "status": status, "detail": "D", "reason": reason}
    headers = {"content-type": "application/problem+json"} | ({"retry-after": "0"} if status in (429, 503) else {})
    return Scripted(status, document | {"retryable": retryable} | more, headers)


LOST = Scripted(None)
BUSY = problem(503, "busy", retryable=True)
UNKNOWN = problem(503, "outcome_unknown", retryable=True)
GRANTED = Scripted(200, RESERVATION)


@dataclass
class Script:
    url: str
    answers: list[Scripted]
    received: list[tuple[str, str, dict[str, Any] | None, dict[str, str]]] = field(default_factory=list)


@contextmanager
def scripted(*answers: Scripted) -> Iterator[Script]:
    script = Script("", list(answers))

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            heads = {name.lower(): value for name, value in self.headers.items()}
            script.received.append((self.command, self.path, json.loads(content) if content else None, heads))
            told = script.answers.pop(0)
            self.close_connection = True
            if told.status is None:
                return
            body = told.body.encode() if isinstance(told.body, str) else json.dumps(told.body).encode()
            time.sleep(told.after_s)
            self.send_response(told.status)
            for name, value in ({"content-type": "application/json"} | told.headers).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - these names are http.server's

        def log_message(self, *_arguments: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
