"""A receiver of webhooks: a real HTTP server that notes what it is sent, and answers as the test says."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook as Verifier

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Received:
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.body)
        return told

    def verified(self, secret: str) -> dict[str, Any]:
        """The event, if the signature is good; otherwise it raises."""
        told: dict[str, Any] = Verifier(secret).verify(self.body, self.headers)
        return told


@dataclass(frozen=True)
class Reply:
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


Answer = Callable[[Received], Reply]


def ok(_received: Received) -> Reply:
    return Reply()


class Receiver:
    def __init__(self, answer: Answer = ok, port: int = 0) -> None:
        self.answer = answer
        self.received: list[Received] = []
        self.accepted: list[Received] = []
        self._news = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hooks"

    def _handler(receiver) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Otherwise headers and body go out in two packets, and the second waits for the first's receipt.
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received = Received({name.lower(): value for name, value in self.headers.items()}, body)
                with receiver._news:
                    receiver.received.append(received)
                    receiver._news.notify_all()
                reply = receiver.answer(received)
                if 200 <= reply.status < 300:
                    with receiver._news:
                        receiver.accepted.append(received)
                        receiver._news.notify_all()
                self.send_response(reply.status)
                for name, value in (*reply.headers, ("content-length", str(len(reply.body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            def handle(self) -> None:
                # A sender that has gone is what some tests are about.
                with suppress(OSError):
                    super().handle()

            def log_message(self, *_said: Any) -> None:
                """What was received is kept, not printed."""

        return Handler

    def wait(self, seen: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        with self._news:
            if not self._news.wait_for(seen, within_s):
                raise TimeoutError(f"only this came: {[r.event for r in self.received[-5:]]}")

    async def until(self, seen: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        await asyncio.to_thread(self.wait, seen, within_s)

    async def until_accepted(self, count: int) -> list[Received]:
        await self.until(lambda: len(self.accepted) >= count)
        return self.accepted

    def types_by_subject(self) -> dict[str, list[str]]:
        """What was accepted, in the order it first came, so as a receiver that knows ids would see it."""
        told: dict[str, list[str]] = {}
        for received in {r.id: r for r in reversed(self.accepted)}.values():
            event = received.event
            told.setdefault(event["subject"], []).insert(0, event["type"])
        return told

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving(answer: Answer = ok, port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver(answer, port)
    thread = threading.Thread(target=receiver.run, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.close()
        thread.join()
