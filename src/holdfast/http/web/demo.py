"""Visitors of the demo: each browser is a buyer of its own, with play money. Served by `holdfast demo` only.

The cookie is a secret of the browser, out of reach of scripts; the buyer's ID is derived from it, so that knowing a
buyer's ID is not enough to act as that buyer. The token lasts a few minutes, and the page asks again.
"""

import re
import secrets
import time
from hashlib import sha256

from joserfc import jwt
from joserfc.jwk import OctKey

from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems
from holdfast.http.contract.endpoints.pages import DEMO_IDENTITY
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.problem import Problem
from holdfast.settings import Settings

IDENTITY = DEMO_IDENTITY.path
COOKIE = "holdfast_demo"
COOKIE_S = 7 * 86_400
TOKEN_S = 600
# Enough for a few purchases; given once to each buyer, so that a declined payment can be tried, too.
PURSE = 50_000
CURRENCY = "EUR"

_SECRET = re.compile(r"[A-Za-z0-9_-]{32}\Z")


class DemoPages:
    def __init__(self, services: Services) -> None:
        self._wallet, self._settings = services.payments.wallet, services.settings

    async def identity(self, request: Request) -> Answer:
        if (request.header("sec-fetch-site") or "same-origin") not in ("same-origin", "none"):
            raise Problem(problems.FORBIDDEN, "Only pages of this server may ask who visits the demo.")
        given = _cookie(request)
        secret = given if _SECRET.match(given) else secrets.token_urlsafe(24)
        buyer_id = f"guest-{sha256(secret.encode()).hexdigest()[:12]}"
        await self._wallet.credit(buyer_id, PURSE, CURRENCY, "welcome")
        body = {"token": _token(buyer_id, self._settings), "buyer_id": buyer_id}
        cookie = f"{COOKIE}={secret}; HttpOnly; Max-Age={COOKIE_S}; Path={IDENTITY}; SameSite=strict"
        return json(body, 200, ("set-cookie", cookie))


def _cookie(request: Request) -> str:
    parts = (part.strip().partition("=") for part in (request.header("cookie") or "").split(";"))
    return next((value for name, _, value in parts if name == COOKIE), "")


def _token(buyer_id: str, settings: Settings) -> str:
    claims = {"sub": buyer_id, "exp": int(time.time()) + TOKEN_S, **settings.buyer_claims}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(settings.buyer_secret_text()))
