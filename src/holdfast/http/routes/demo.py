"""Who visits the demo: each browser is a buyer of its own, with play money. Served by `holdfast demo` only.

The cookie is a secret of the browser, out of reach of scripts; the buyer's id is derived from it, so that knowing who
somebody is does not make one them. The token lasts a few minutes, and the page asks again.
"""

import re
import secrets
import time
from hashlib import sha256

import msgspec
from fastapi import APIRouter, Request, Response
from joserfc import jwt
from joserfc.jwk import OctKey

from holdfast.http.problems import Problem
from holdfast.http.routes.callers import TheHouse

router = APIRouter(include_in_schema=False)

IDENTITY = "/demo/identity"
COOKIE = "holdfast_demo"
COOKIE_S = 7 * 86_400
TOKEN_S = 600
# Enough for a few of anything; given once to each buyer, so that a declined payment can be had, too.
PURSE = 50_000
CURRENCY = "EUR"

_SECRET = re.compile(r"[A-Za-z0-9_-]{32}\Z")


@router.get(IDENTITY)
async def identity(request: Request, house: TheHouse) -> Response:
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem(403, "forbidden", "Not allowed", "Only pages of this server may ask who visits the demo.")
    given = request.cookies.get(COOKIE, "")
    secret = given if _SECRET.match(given) else secrets.token_urlsafe(24)
    buyer_id = f"guest-{sha256(secret.encode()).hexdigest()[:12]}"
    await house.cashier.wallet.credit(buyer_id, PURSE, CURRENCY, "welcome")
    body = {"token": _token(buyer_id, house.settings.buyer_secret_text()), "buyer_id": buyer_id}
    response = Response(msgspec.json.encode(body), media_type="application/json", headers={"cache-control": "no-store"})
    response.set_cookie(COOKIE, secret, max_age=COOKIE_S, path=IDENTITY, httponly=True, samesite="strict")
    return response


def _token(buyer_id: str, buyer_secret: str) -> str:
    claims = {"sub": buyer_id, "exp": int(time.time()) + TOKEN_S}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(buyer_secret))
