"""A room that publishes its keys, and shops behind the middleware, each on a port of its own."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@dataclass
class Key:
    key_id: str
    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def public(self) -> dict[str, str]:
        point = encode(self.private.public_key().public_bytes_raw())
        return {"kty": "OKP", "crv": "Ed25519", "x": point, "kid": self.key_id, "alg": "Ed25519", "use": "sig"}

    def sign(self, claims: dict[str, Any], **header: object) -> str:
        head = {"alg": "Ed25519", "kid": self.key_id, "typ": "holdfast-pass"} | header
        signed = f"{encode(json.dumps(head).encode())}.{encode(json.dumps(claims).encode())}"
        return f"{signed}.{encode(self.private.sign(signed.encode()))}"


def claims(**changes: object) -> dict[str, Any]:
    now = int(time.time())
    given = {"sub": "ada", "sale": "drop", "jti": "p1", "iat": now, "exp": now + 300} | changes
    return {name: value for name, value in given.items() if value is not None}


@dataclass
class Publisher:
    """What `/.well-known/jwks.json` of the room answers, and how often it was asked."""

    keys: list[Key]
    url: str = ""
    asked: int = 0
    is_down: bool = False

    def answer(self) -> tuple[int, bytes]:
        self.asked += 1
        return (503, b"") if self.is_down else (200, json.dumps({"keys": [key.public for key in self.keys]}).encode())


@contextmanager
def publishing(*keys: Key) -> Iterator[Publisher]:
    publisher = Publisher(list(keys))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = publisher.answer()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    publisher.url = f"http://127.0.0.1:{server.server_port}/.well-known/jwks.json"
    with serving_in_thread(server):
        yield publisher


@contextmanager
def serving_in_thread(server: Any) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
