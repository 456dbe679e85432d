"""An OpenID Connect issuer for tests: it signs in whom the test says, by the rules of the code flow with PKCE."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT = "holdfast-console"


class Issuer:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key = ECKey.generate_key("P-256", {"kid": "k1"})
        self.published = self.key
        # Claims over the usual ones, of the next ID token.
        self.claims: dict[str, Any] = {}
        self.asked: dict[str, dict[str, str]] = {}

    def authorize(self, query: str) -> str:
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.asked)}"
        self.asked[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, str] | None:
        asked = self.asked.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return None
        claims = {"iss": self.url, "aud": CLIENT, "sub": "u-1", "exp": int(time.time()) + 60, "nonce": asked["nonce"]}
        claims |= {"email": "ada@example.com", "email_verified": True} | self.claims
        return {"access_token": "a", "token_type": "Bearer", "id_token": self.signed(claims)}

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "ES256", "kid": "k1"}, claims, self.key)

    def document(self, path: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            return {"issuer": self.url} | {name: f"{self.url}/{end}" for name, end in ends.items()}
        return {"keys": [self.published.as_dict(private=False)]} if path == "/keys" else None


@contextmanager
def issuing() -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", issuer.authorize(parts.query))
                self.end_headers()
                return
            self._json(issuer.document(parts.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._json(issuer.token({name: values[0] for name, values in parse_qs(body).items()}))

        def _json(self, body: dict[str, Any] | None) -> None:
            self.send_response(200 if body is not None else 400)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body or {"error": "invalid_grant"}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer = Issuer(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
