"""A place where the public keys of buyers' tokens are published, which can be right, wrong, slow or gone."""

import json
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from http_tokens import claims_of
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from holdfast.lab.load.engines import free_port

SigningKey = RSAKey | ECKey | OKPKey
KEY_OF: dict[str, Callable[[str], SigningKey]] = {
    "RS256": lambda kid: RSAKey.generate_key(2048, {"kid": kid}),
    "ES256": lambda kid: ECKey.generate_key("P-256", {"kid": kid}),
    "EdDSA": lambda kid: OKPKey.generate_key("Ed25519", {"kid": kid}),
}


def signed(key: SigningKey, algorithm: str, buyer_id: str = "ada", **header: Any) -> str:
    fields = {"alg": algorithm, "kid": key.kid} | header
    with warnings.catch_warnings():
        # RFC 9864 has newer names for EdDSA; buyers' tokens in the wild have the old one.
        warnings.simplefilter("ignore", SecurityWarning)
        return jwt.encode(fields, claims_of(buyer_id), key, algorithms=[algorithm])


class Publisher:
    """Serves `body` at `url` while it is open."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/jwks.json"
        self.body = b'{"keys": []}'
        self.asked = 0
        self.silent_s = 0.0
        self._closing = threading.Event()

    def publish(self, *keys: SigningKey) -> None:
        self.body = json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()

    @contextmanager
    def opened(self) -> Iterator[None]:
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked += 1
                publisher._closing.wait(publisher.silent_s)
                with suppress(ConnectionError):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.end_headers()
                    self.wfile.write(publisher.body)

            def log_message(self, *args: Any) -> None:
                """Quiet: the tests say what matters."""

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield
            finally:
                self._closing.set()
                server.shutdown()
                thread.join()
