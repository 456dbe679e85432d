"""A FastAPI shop with Holdfast's waiting room in front of its own checkout.

The shop knows its visitors, takes the money and makes the pages. Holdfast runs the line and counts the stock:

- `/` is open to all.
- `/checkout` is behind the room. The first visit with a pass reserves one unit, with a service key.
- `/checkout/pay` takes the money (here: a button) and confirms the reservation.
- `/pay` is where Holdfast's own page sends a cart that is paid at the shop (`checkout_url`, `payment: external`).
- `/login/token` tells Holdfast's page who the visitor is.
"""

import hashlib
import os
import secrets
import time
from datetime import datetime
from html import escape
from typing import Annotated, Any

import httpx
from fastapi import Cookie, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from holdfast_connect import Gatekeeper, Pass, PublishedKeys, RoomMiddleware, Visit
from joserfc import jwt
from joserfc.jwk import OctKey

ROOM = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8000")
SHOP = os.environ.get("SHOP_URL", "http://127.0.0.1:8100")
SALE = os.environ.get("SALE_ID", "demo")
SERVICE_KEY = os.environ.get("HOLDFAST_SERVICE_KEY", "")
BUYER_SECRET = os.environ.get("HOLDFAST_BUYER_SECRET", "")
SESSION = "shop_session"


def buyer_id_of(session: str) -> str:
    """A real shop looks the session up; here every browser is a customer of its own."""
    return f"customer-{hashlib.sha256(session.encode()).hexdigest()[:12]}"


def buyer_of(visit: Visit) -> str | None:
    session = visit.cookies.get(SESSION)
    return None if session is None else buyer_id_of(session)


gatekeeper = Gatekeeper(
    SALE,
    PublishedKeys(f"{ROOM}/.well-known/jwks.json"),
    paths=["/checkout"],
    waiting_url=f"{ROOM}/s/{SALE}",
    origin=SHOP,
    buyer_of=buyer_of,
)
app = FastAPI(docs_url=None, redoc_url=None)
app.add_middleware(RoomMiddleware, gatekeeper=gatekeeper)
holdfast = httpx.AsyncClient(base_url=ROOM, headers={"Authorization": f"Bearer {SERVICE_KEY}"}, trust_env=False)
Session = Annotated[str | None, Cookie(alias=SESSION)]


@app.get("/")
async def front(session: Session = None) -> Response:
    answer = page("<h1>Tidewater No. 7</h1><p>A vessel, 49.99 €.</p><p><a href='/checkout'>Buy now</a></p>")
    if session is None:
        answer.set_cookie(SESSION, secrets.token_urlsafe(24), httponly=True, samesite="lax")
    return answer


@app.get("/login/token")
async def token(session: Session = None) -> Response:
    """Asked by Holdfast's page, of another origin, with this shop's cookie."""
    headers = {"Access-Control-Allow-Origin": ROOM, "Access-Control-Allow-Credentials": "true", "Vary": "Origin"}
    if session is None:
        return JSONResponse({"error": "not signed in"}, 401, headers)
    claims = {"sub": buyer_id_of(session), "exp": int(time.time()) + 600}
    return JSONResponse(
        {"token": jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(BUYER_SECRET))}, headers=headers
    )


@app.get("/checkout")
async def checkout(request: Request) -> Response:
    admitted: Pass = request.scope["holdfast.pass"]
    sale = (await holdfast.get(f"/v1/sales/{admitted.sale_id}")).json()
    # The pass is the key: reloading this page finds the same reservation, and one pass buys once.
    wanted = {"owner_id": admitted.buyer_id, "quantity": 1, "idempotency_key": admitted.pass_id}
    answer = await holdfast.post(f"/v1/inventory/{sale['sku_id']}/reserve", json=wanted)
    if answer.status_code != 200:
        return page(f"<h1>Sorry</h1><p>{escape(answer.json()['title'])}.</p>", 409)
    held = answer.json()
    if answer.headers.get("Idempotency-Replayed"):
        # A repeat answers as the first time did. What has become of the reservation since is looked up.
        held = (await holdfast.get(f"/v1/reservations/{held['reservation_id']}")).json()
    return payment_page(held, "/checkout/pay")


@app.get("/pay")
async def cart(reservation_id: str, session: Session = None) -> Response:
    """A cart from Holdfast's page. Not behind the room: the reservation is the permission."""
    held = await own_reservation(reservation_id, session)
    return nothing_to_pay() if held is None else payment_page(held, "/pay")


@app.post("/checkout/pay")
@app.post("/pay")
async def pay(reservation_id: str, session: Session = None) -> Response:
    """Take the money first, then confirm: a confirmed reservation is an order."""
    held = await own_reservation(reservation_id, session)
    if held is None or held["status"] != "active":
        return nothing_to_pay() if held is None else payment_page(held, "/pay")
    # Here a real shop takes the money, with the reservation's ID as its payment provider's idempotency key.
    answer = await holdfast.post(f"/v1/reservations/{reservation_id}/confirm")
    if answer.status_code != 200:
        return page(f"<h1>Too late</h1><p>{escape(answer.json()['title'])}.</p>", 409)
    return RedirectResponse(f"/orders/{reservation_id}", 303)


@app.get("/orders/{reservation_id}")
async def order(reservation_id: str, session: Session = None) -> Response:
    bought = await own_reservation(reservation_id, session)
    if bought is None:
        return page("<h1>No such order</h1>", 404)
    return page(f"<h1>Thank you</h1><p>Your order is <b>{escape(bought['status'])}</b>.</p>")


async def own_reservation(reservation_id: str, session: str | None) -> dict[str, Any] | None:
    """Looked up, and only if it is this visitor's: a reservation's ID in a URL proves nothing."""
    answer = await holdfast.get("/v1/reservations/" + reservation_id.replace("/", ""))
    if session is None or answer.status_code != 200 or answer.json()["owner_id"] != buyer_id_of(session):
        return None
    found: dict[str, Any] = answer.json()
    return found


def payment_page(held: dict[str, Any], action: str) -> Response:
    """Only what is still reserved is paid: nobody pays twice, or for a unit that has gone back on sale."""
    if held["status"] == "confirmed":
        return RedirectResponse(f"/orders/{held['reservation_id']}", 303)
    if held["status"] != "active":
        return page("<h1>Your time ran out</h1><p>You were not charged. <a href='/'>Back to the shop</a></p>", 409)
    until = datetime.fromisoformat(held["expires_at"])
    return page(
        f"<h1>Reserved for you</h1><p>Until {until:%H:%M:%S} UTC.</p>"
        f"<form method='post' action='{action}?reservation_id={escape(held['reservation_id'])}'>"
        "<button>Pay 49.99 €</button></form>"
    )


def nothing_to_pay() -> HTMLResponse:
    return page("<h1>Nothing to pay</h1>", 404)


def page(body: str, status: int = 200) -> HTMLResponse:
    style = "<style>body{font:1.1rem/1.5 sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem}</style>"
    head = f"<!doctype html><html lang='en'><meta name='viewport' content='width=device-width'>{style}"
    return HTMLResponse(f"{head}<title>Tide &amp; Co</title><link rel='icon' href='data:,'>{body}", status)
