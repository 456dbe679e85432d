"""The lane of looks and confirmations against the routes behind it: whatever it answers, they would have answered too.

Each request is put to both, about twins: reservations granted in one batch, alike in all but their ids.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from uuid import uuid4

import pytest
from http_tokens import buyer_token
from msgspec import structs

from asking_inside import NoWire
from holdfast.bootstrap import House, open_house
from holdfast.domain.command import Move, Provision, Reserve, Transition
from holdfast.domain.concurrency import Priority
from holdfast.domain.reservation import Reservation, Status, new_reservation_id
from holdfast.domain.sale import Checkout, PaymentKind, Sale
from holdfast.http.app import App
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem
from holdfast.http.requests import Answer, Request, refuse
from holdfast.http.reservation_lane import ReservationLane
from holdfast.http.slow_lane import SlowLane
from holdfast.ledger.keys import Scope, create_key
from holdfast.settings import load_settings

BUYER_SECRET = "b0ye45ec" * 4
Ask = tuple[str, str, bytes]
T = Transition
# How a hold comes into each state.
STATES = {
    Status.ACTIVE: (),
    Status.SETTLING: (T.SETTLE,),
    Status.CONFIRMED: (T.CONFIRM,),
    Status.FAILED: (T.SETTLE, T.FAIL),
    Status.CANCELLED: (T.CANCEL,),
    Status.EXPIRED: (),
}
LOOK: Ask = ("GET", "", b"")
USUAL: list[Ask] = [
    LOOK,
    ("GET", "", b"{"),
    ("DELETE", "", b""),
    ("DELETE", "", b'{"any": "thing"}'),
    ("POST", "/confirm", b""),
    ("POST", "/confirm", b"{}"),
    ("POST", "/confirm", b'{"payment_method": null}'),
    ("POST", "/confirm", b'{"payment_method": "pm_\xc3\xa9"}'),
    ("POST", "/extend", b'{"ttl_seconds": 30}'),
]
UNUSUAL_BODIES = [
    ("/confirm", b" "),
    ("/confirm", b"{"),
    ("/confirm", b"null"),
    ("/confirm", b"[]"),
    ("/confirm", b'{"payment_method": 1}'),
    ("/confirm", b'{"payment_method": ""}'),
    ("/confirm", b'{"payment_method": "a\\nb"}'),
    ("/confirm", b'{"payment_method": "\xff"}'),
    ("/confirm", b'{"colour": "red"}'),
    ("/extend", b""),
    ("/extend", b"{}"),
    ("/extend", b'{"ttl_seconds": 30.0}'),
    ("/extend", b'{"ttl_seconds": "30"}'),
    ("/extend", b'{"ttl_seconds": true}'),
    ("/extend", b'{"ttl_seconds": 1801}'),
    ("/extend", b'{"ttl_seconds": ' + b"9" * 5_000 + b"}"),
]


@dataclass(frozen=True)
class Lanes:
    house: House
    quick: ReservationLane
    slow: SlowLane
    callers: dict[str, str | None]
    """What they send as their authorization."""


@pytest.fixture(scope="module")
async def lanes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lanes]:
    settings = load_settings(data=tmp_path_factory.mktemp("lane"), buyer_secret=BUYER_SECRET)
    async with open_house(settings, background=False) as house:
        yield Lanes(house, ReservationLane(house, Patrol()), SlowLane(house, Patrol()), await callers_of(house))


async def callers_of(house: House) -> dict[str, str | None]:
    _, sales_key = await house.database.write(lambda c: create_key(c, "sales", frozenset({Scope.SALES}), 0))
    return {
        "owner": f"Bearer {buyer_token('ada')}",
        "another buyer": f"Bearer {buyer_token('eve')}",
        "service": f"Bearer {house.settings.service_key_text()}",
        "service without the scope": f"Bearer {sales_key}",
        "unknown key": "Bearer hf_made_up",
        "bad token": "Bearer a.b.c",
        "not a bearer": "Basic YTpi",
        "nobody": None,
    }


async def sku_in_sale(house: House, payment: PaymentKind) -> str:
    name = f"drop-{uuid4().hex[:8]}"
    sale = Sale(
        sale_id=name, sku_id=name, name="Drop", price_amount=100, currency="EUR", starts_at=0,
        checkout=Checkout.CART, payment=payment, loaded_units=1_000, per_buyer_limit=None,
    )  # fmt: skip
    await house.office.create(sale)
    await house.catalogue.refresh()
    return name


async def twins(house: House, sku_id: str, status: Status = Status.ACTIVE) -> list[str]:
    """Two holds of one buyer, of the same moment, in the same state."""
    ttl_ms = 0 if status is Status.EXPIRED else 600_000
    ids = [new_reservation_id(sku_id, "ada") for _ in range(2)]
    asks: list[Reserve | Move] = [Reserve(i, "ada", 1, 1, ttl_ms) for i in ids]
    asks += [Move(transition, i) for transition in STATES[status] for i in ids]
    verdicts = await asyncio.gather(*[house.batcher.submit(sku_id, ask) for ask in asks])
    assert all(verdict.outcome.is_success for verdict in verdicts)
    return ids


def request(
    authorization: str | None, method: str, path: str, body: bytes = b"", query: str = "", receipt: str | None = None
) -> Request:
    headers = [] if receipt is None else [("holdfast-receipt", receipt)]
    return Request(method, path, query, NoWire(headers), "id", authorization=authorization, body=body)


async def told(answer: Awaitable[Answer] | None) -> Answer | None:
    """What the application makes of it; None if the lane leaves it to the routes."""
    try:
        return None if answer is None else await answer
    except Problem as problem:
        return refuse(problem)


def shown(answer: Answer | None) -> tuple[int, dict[str, str], bytes]:
    assert answer is not None
    headers = {name: value for name, value in answer.headers if name != "content-length"}
    return answer.status, headers, answer.body


async def status_of_both(
    lanes: Lanes, who: str, pair: list[str], ask: Ask, *, query: str = "", receipt: str | None = None
) -> int:
    """The status that the lane answers with, as the routes do to the twin, in the same words."""
    method, action, body = ask
    quick, slow = [
        request(lanes.callers[who], method, f"/v1/reservations/{i}{action}", body, query, receipt) for i in pair
    ]
    answer = shown(await told(lanes.quick.answer(quick)))
    status, headers, content = shown(await lanes.slow.answer(slow))
    assert answer == (status, headers, content.replace(pair[1].encode(), pair[0].encode())), (who, ask)
    return status


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("who", ["owner", "service"])
async def test_in_every_state_the_lane_says_what_the_routes_say(lanes: Lanes, status: Status, who: str) -> None:
    sku_id = await sku_in_sale(lanes.house, PaymentKind.WALLET)
    for ask in USUAL:
        pair = await twins(lanes.house, sku_id, status)
        assert await status_of_both(lanes, who, pair, ask) in (200, 202, 204, 409)
        assert await status_of_both(lanes, who, pair, LOOK, query="any=thing") == 200


async def test_every_caller_is_told_by_the_lane_what_the_routes_say(lanes: Lanes) -> None:
    sku_id = await sku_in_sale(lanes.house, PaymentKind.WALLET)
    seen = {
        who: {await status_of_both(lanes, who, await twins(lanes.house, sku_id), ask) for ask in USUAL}
        for who in lanes.callers
    }
    assert seen == {who: {401} for who in lanes.callers} | {
        "owner": {200, 202, 204},
        "service": {200, 204},
        "another buyer": {404},
        "service without the scope": {403},
    }


@pytest.mark.parametrize("in_sale", [True, False])
async def test_where_buyers_cannot_pay_the_lane_says_so_too(lanes: Lanes, in_sale: bool) -> None:
    sku_id = await sku_in_sale(lanes.house, PaymentKind.EXTERNAL) if in_sale else f"pool-{uuid4().hex[:8]}"
    await lanes.house.engine.gate.apply(sku_id, [Provision(1_000)])
    for who, status in (("owner", 409 if in_sale else 403), ("service", 200)):
        pair = await twins(lanes.house, sku_id)
        assert await status_of_both(lanes, who, pair, ("POST", "/confirm", b"")) == status
        assert await status_of_both(lanes, who, pair, LOOK) == 200


@pytest.mark.parametrize("sku_id", ["nowhere", "known"])
async def test_what_never_was_is_not_found(lanes: Lanes, sku_id: str) -> None:
    await lanes.house.engine.gate.apply("known", [Provision(1)])
    made_up = [f"rsv_{'0' * 32}_{sku_id}"] * 2
    for who in ("owner", "service"):
        assert {await status_of_both(lanes, who, made_up, ask) for ask in USUAL} == {404}


async def test_what_was_lost_is_told_apart_by_its_receipt(lanes: Lanes) -> None:
    sku_id = await sku_in_sale(lanes.house, PaymentKind.WALLET)
    lost = Reservation(new_reservation_id(sku_id, "ada"), sku_id, "ada", 1, Status.ACTIVE, 0, 0)
    receipt = lanes.house.receipts.sign(lost)
    for who, status in (("owner", 410), ("service", 410), ("another buyer", 404)):
        pair = [lost.reservation_id] * 2
        assert {await status_of_both(lanes, who, pair, ask, receipt=receipt) for ask in USUAL} == {status}


async def test_what_is_unusual_is_left_to_the_routes(lanes: Lanes) -> None:
    owner = lanes.callers["owner"]
    path = f"/v1/reservations/{(await twins(lanes.house, await sku_in_sale(lanes.house, PaymentKind.WALLET)))[0]}"
    odd = [("POST", f"{path}{action}", body) for action, body in UNUSUAL_BODIES]
    odd += [(method, path, b"") for method in ("HEAD", "OPTIONS", "PUT", "PATCH", "POST")]
    odd += [(method, f"{path}/confirm", b"") for method in ("GET", "HEAD", "OPTIONS", "DELETE")]
    odd += [("GET", changed, b"") for changed in (f"{path}/", f"{path}/history", f"{path}\n", f"{path} ", f"/{path}")]
    odd += [("GET", f"/v1/reservations/{i}", b"") for i in ("", "x", "rsv_", "rsv_1_sku", f"rsv_{'G' * 32}_sku")]
    odd += [("GET", f"/v1/reservations/rsv_{'0' * 32}_{'s' * 101}", b""), ("GET", "/v1/reservations", b"")]
    odd += [("GET", "/v1/orders/", b""), ("HEAD", "/v1/orders", b""), ("POST", "/v1/orders", b"")]
    assert [ask for ask in odd if lanes.quick.answer(request(owner, *ask)) is not None] == []


async def test_a_buyers_orders_are_the_same_either_way(lanes: Lanes) -> None:
    house, sku_id = lanes.house, await sku_in_sale(lanes.house, PaymentKind.EXTERNAL)
    for bought in (0, 2, 20, 24):
        buyer_id = f"buyer-{uuid4().hex[:8]}"
        ids = [new_reservation_id(sku_id, buyer_id) for _ in range(bought)]
        asks = [Reserve(i, buyer_id, 1, 1) for i in ids] + [Move(Transition.CONFIRM, i) for i in ids]
        await asyncio.gather(*[house.batcher.submit(sku_id, ask) for ask in asks])
        asked = request(f"Bearer {buyer_token(buyer_id)}", "GET", "/v1/orders")
        assert lanes.quick.answer(asked) is None, "whoever has not been recognised is for the routes to refuse"
        asked.caller = await house.doorkeeper.identify(asked.authorization)
        listed = shown(await told(lanes.quick.answer(asked)))
        assert listed == shown(await lanes.slow.answer(asked))
        assert listed[2].count(b'"order_id"') == min(bought, 20)
        assert lanes.quick.answer(structs.replace(asked, query="limit=1")) is None


async def test_the_lane_stands_behind_the_door_as_the_routes_do(lanes: Lanes) -> None:
    """Limits by buyer are told, a request id comes back, and what does not fit is refused by its importance."""
    house, app, owner = lanes.house, App(lanes.house), lanes.callers["owner"]
    path = f"/v1/reservations/{(await twins(house, await sku_in_sale(house, PaymentKind.WALLET)))[0]}"
    looks = [(owner, path), (owner, "/v1/orders"), (lanes.callers["service"], path)]
    answers = [shown(await app.answer(request(who, "GET", where))) for who, where in looks]
    assert [(status, headers["x-request-id"]) for status, headers, _ in answers] == [(200, "id")] * 3
    assert ["ratelimit" in headers for _, headers, _ in answers] == [True, True, False]
    crowd = 0
    while house.door.shedder.limiter.enter(Priority.READ):
        crowd += 1
    refused = [shown(await app.answer(request(who, "GET", where)))[0] for who, where in looks]
    assert refused == [503] * 3
    assert shown(await app.answer(request(owner, "POST", f"{path}/confirm")))[0] == 202
    for _ in range(crowd):
        house.door.shedder.limiter.leave(None, 0.0)
    await app.finish()
