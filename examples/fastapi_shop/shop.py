"""A FastAPI shop with a waiting room in front of its checkout."""

import os

from fastapi import FastAPI, Request

from holdfast.connect import Gatekeeper, Pass, PublishedKeys, RoomMiddleware

ROOM = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8000")
SALE = os.environ.get("SALE_ID", "demo")

gatekeeper = Gatekeeper(
    SALE,
    PublishedKeys(f"{ROOM}/.well-known/jwks.json"),
    paths=["/checkout"],
    waiting_url=f"{ROOM}/s/{SALE}",
    # The signed-in user; a header stands in for your shop's session.
    buyer_of=lambda visit: visit.headers.get("x-shop-buyer"),
)

app = FastAPI()
app.add_middleware(RoomMiddleware, gatekeeper=gatekeeper)


@app.get("/")
async def front() -> dict[str, str]:
    return {"shop": "open to all"}


@app.get("/checkout")
async def checkout(request: Request) -> dict[str, str]:
    admitted: Pass = request.scope["holdfast.pass"]
    return {"buyer": admitted.buyer_id, "sale": admitted.sale_id}
