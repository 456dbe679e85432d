"""The middleware in front of a shop: passes are checked offline, everyone else is sent to the room (FAULTS 20)."""

import asyncio
import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest
import uvicorn
from connect_world import Key, Publisher, claims, encode, publishing, serving_in_thread

from holdfast.connect import Gatekeeper, PublishedKeys, RoomMiddleware, WsgiRoomMiddleware
from holdfast.connect import keys as keys_module
from holdfast.connect.asgi import Receive, Scope, Send
from holdfast.lab.load.engines import free_port

WAITING = "https://room.example.com/wait"


async def asgi_shop(scope: Scope, _receive: Receive, send: Send) -> None:
    admitted = scope.get("holdfast.pass")
    body = b"anyone" if admitted is None else admitted.buyer_id.encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def wsgi_shop(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    admitted = environ.get("holdfast.pass")
    start_response("200 OK", [])
    return [b"anyone" if admitted is None else admitted.buyer_id.encode()]


@contextmanager
def asgi_serving(gatekeeper: Gatekeeper) -> Iterator[str]:
    port, started = free_port(), threading.Event()
    config = uvicorn.Config(RoomMiddleware(asgi_shop, gatekeeper), port=port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)

    def run() -> None:
        asyncio.run(server.serve())

    thread = threading.Thread(target=run)
    thread.start()
    while not server.started:
        started.wait(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


class Quiet(WSGIRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Nobody reads it."""


@contextmanager
def wsgi_serving(gatekeeper: Gatekeeper) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, WsgiRoomMiddleware(wsgi_shop, gatekeeper), handler_class=Quiet)
    with serving_in_thread(server):
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def key() -> Key:
    return Key("k1-pass")


@pytest.fixture
def publisher(key: Key) -> Iterator[Publisher]:
    with publishing(key) as publisher:
        yield publisher


@pytest.fixture(params=[asgi_serving, wsgi_serving], ids=["asgi", "wsgi"])
def shop(request: pytest.FixtureRequest, publisher: Publisher) -> Iterator[httpx.Client]:
    gatekeeper = Gatekeeper("drop", PublishedKeys(publisher.url), paths=["/checkout"], waiting_url=WAITING)
    with request.param(gatekeeper) as url, httpx.Client(base_url=url, verify=False, trust_env=False) as client:
        yield client


def checkout(shop: httpx.Client, token: str | None = None, path: str = "/checkout", **headers: str) -> httpx.Response:
    return shop.get(path, headers=headers | ({} if token is None else {"Holdfast-Pass": token}))


def test_what_is_not_guarded_is_open_to_all(shop: httpx.Client, publisher: Publisher) -> None:
    assert [shop.get(path).text for path in ("/", "/checkouts", "/shop/checkout")] == ["anyone"] * 3
    assert publisher.asked == 0


@pytest.mark.parametrize("path", ["/checkout", "/checkout/", "/checkout/pay?a=1", "/.//checkout", "/x/../checkout"])
def test_a_request_without_a_pass_is_told_so(shop: httpx.Client, path: str) -> None:
    answer = checkout(shop, path=path)
    assert (answer.status_code, answer.json()["reason"]) == (429, "admission_required")
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/checkout/%2e%2e/x", "/checkout/../x", "//checkout/%2e%2e/x", "/x/%2e%2e/checkout"])
def test_a_path_is_guarded_as_it_is_sent_and_as_it_is_normalised(shop: httpx.Client, path: str) -> None:
    """httpx would tidy it up first."""
    with closing(HTTPConnection(shop.base_url.host, shop.base_url.port, timeout=10)) as connection:
        connection.request("GET", path)
        assert connection.getresponse().status == 429


def test_a_path_outside_ascii_is_returned_to_as_it_was(shop: httpx.Client, key: Key) -> None:
    answer = checkout(shop, path="/checkout/größe-✓", Accept="text/html")
    path = "/checkout/gr%C3%B6%C3%9Fe-%E2%9C%93"
    assert answer.headers["location"] == f"{WAITING}?return_to={quote(path, safe='')}"
    back = come_back(shop, key.sign(claims()), f"{path}?holdfast_return=1")
    assert back.headers["location"] == path


def test_a_browser_without_a_pass_is_sent_to_the_room_and_back(shop: httpx.Client) -> None:
    answer = checkout(shop, path="/checkout/pay?item=1&x=2", Accept="text/html,*/*")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{WAITING}?return_to=%2Fcheckout%2Fpay%3Fitem%3D1%26x%3D2"
    assert shop.post("/checkout", headers={"Accept": "text/html"}).status_code == 429


def test_a_pass_in_a_header_or_a_cookie_opens_and_keys_are_fetched_once(
    shop: httpx.Client, key: Key, publisher: Publisher
) -> None:
    token = key.sign(claims())
    assert [checkout(shop, token).text for _ in range(3)] == ["ada"] * 3
    assert checkout(shop, Cookie=f"odd[]=1; holdfast_pass={token}; b=2").text == "ada"
    assert checkout(shop, key.sign(claims(sub="bob"))).text == "bob"
    assert publisher.asked == 1


def swapped(key: Key) -> str:
    """Signed with the public key as if it were a shared secret."""
    import hashlib
    import hmac

    head = encode(json.dumps({"alg": "HS256", "kid": key.key_id, "typ": "holdfast-pass"}).encode())
    content = f"{head}.{encode(json.dumps(claims()).encode())}"
    secret = base64.urlsafe_b64decode(key.public["x"] + "=")
    return f"{content}.{encode(hmac.new(secret, content.encode(), hashlib.sha256).digest())}"


ABUSES: dict[str, Callable[[Key], str]] = {
    "nothing": lambda _key: "x",
    "not a token": lambda _key: "a.b.c",
    "too long": lambda key: key.sign(claims(sub="x" * 3_000)),
    "alg none": lambda key: key.sign(claims(), alg="none"),
    "alg none, no signature": lambda key: key.sign(claims(), alg="none").rpartition(".")[0] + ".",
    "algorithm swapped": swapped,
    "another kind": lambda key: key.sign(claims(), typ="holdfast-ticket"),
    "no kind": lambda key: key.sign(claims(), typ=None),
    "no key id": lambda key: key.sign(claims(), kid=None),
    "foreign key under a known id": lambda key: Key(key.key_id).sign(claims()),
    "foreign key id": lambda _key: Key("theirs").sign(claims()),
    "no expiry": lambda key: key.sign(claims(exp=None)),
    "expiry far away": lambda key: key.sign(claims(exp=int(time.time()) + 10**8)),
    "expired": lambda key: key.sign(claims(iat=int(time.time()) - 600, exp=int(time.time()) - 60)),
    "from the future": lambda key: key.sign(claims(iat=int(time.time()) + 600, exp=int(time.time()) + 700)),
    "expiry as text": lambda key: key.sign(claims(exp="9999999999")),
    "another sale": lambda key: key.sign(claims(sale="other")),
    "no buyer": lambda key: key.sign(claims(sub=None)),
    "signature cut": lambda key: key.sign(claims())[:-8],
}


@pytest.mark.parametrize("abuse", list(ABUSES.values()), ids=list(ABUSES))
def test_a_bad_pass_is_no_pass(publisher: Publisher, key: Key, abuse: Callable[[Key], str]) -> None:
    gatekeeper = Gatekeeper("drop", PublishedKeys(publisher.url))
    with wsgi_serving(gatekeeper) as url, httpx.Client(base_url=url, verify=False, trust_env=False) as shop:
        answer = checkout(shop, abuse(key))
        assert (answer.status_code, answer.json()["reason"]) == (429, "admission_required")
        assert checkout(shop, key.sign(claims())).text == "ada"


def test_a_pass_of_another_buyer_is_refused_where_the_shop_knows_its_buyers(publisher: Publisher, key: Key) -> None:
    gatekeeper = Gatekeeper("drop", PublishedKeys(publisher.url), buyer_of=lambda visit: visit.headers.get("x-buyer"))
    with asgi_serving(gatekeeper) as url, httpx.Client(base_url=url, verify=False, trust_env=False) as shop:
        token = key.sign(claims())
        assert checkout(shop, token, **{"X-Buyer": "ada"}).text == "ada"
        assert checkout(shop, token, **{"X-Buyer": "eve"}).status_code == 429


def test_a_rotated_key_is_fetched_and_made_up_ones_are_not_a_flood(
    publisher: Publisher, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        asgi_serving(Gatekeeper("drop", PublishedKeys(publisher.url))) as url,
        httpx.Client(base_url=url, verify=False) as shop,
    ):
        assert checkout(shop, key.sign(claims())).text == "ada"
        new = Key("k2-pass")
        publisher.keys.insert(0, new)
        for n in range(20):
            assert checkout(shop, Key(f"made-up-{n}").sign(claims())).status_code == 429
        assert publisher.asked == 1
        monkeypatch.setattr(keys_module, "PAUSE_S", 0.0)
        assert checkout(shop, new.sign(claims())).text == "ada"
        assert checkout(shop, key.sign(claims(sub="bob"))).text == "bob"
        assert publisher.asked == 2


def test_without_keys_nobody_is_let_in_and_known_ones_outlive_an_outage(
    publisher: Publisher, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "PAUSE_S", 0.0)
    publisher.is_down = True
    with (
        asgi_serving(Gatekeeper("drop", PublishedKeys(publisher.url))) as url,
        httpx.Client(base_url=url, verify=False) as shop,
    ):
        refused = checkout(shop, key.sign(claims()))
        assert (refused.status_code, refused.json()["reason"]) == (503, "not_ready")
        publisher.is_down = False
        assert checkout(shop, key.sign(claims())).text == "ada"
        publisher.is_down = True
        monkeypatch.setattr(keys_module, "FRESH_S", 0.0)
        assert checkout(shop, key.sign(claims(sub="bob"))).text == "bob"


def come_back(shop: httpx.Client, token: str, path: str = "/checkout?item=1&holdfast_return=1") -> httpx.Response:
    """As the waiting page sends a visitor back."""
    return shop.post(path, data={"holdfast_pass": token})


def test_a_visitor_who_returns_with_a_pass_has_it_in_a_cookie_and_a_plain_url(shop: httpx.Client, key: Key) -> None:
    token = key.sign(claims())
    back = come_back(shop, token)
    assert (back.status_code, back.headers["location"]) == (303, "/checkout?item=1")
    assert back.headers["cache-control"] == "no-store"
    assert re.fullmatch(
        rf"holdfast_pass={re.escape(token)}; Path=/; Max-Age=(29\d|300); HttpOnly; SameSite=Lax",
        back.headers["set-cookie"],
    )
    assert shop.get("/checkout?item=1").text == "ada"


def test_by_tls_the_cookie_is_of_this_host_alone(publisher: Publisher, key: Key) -> None:
    keys, token = PublishedKeys(publisher.url), key.sign(claims())
    with asgi_serving(Gatekeeper("drop", keys, origin="https://shop.example.com")) as url:
        behind_tls = httpx.post(f"{url}/?holdfast_return=1", data={"holdfast_pass": token}, verify=False)
    with wsgi_serving(Gatekeeper("drop", keys)) as url:
        headers = {"X-Forwarded-Proto": "https"}
        forwarded = httpx.post(
            f"{url}/?holdfast_return=1", data={"holdfast_pass": token}, headers=headers, verify=False
        )
        opened = httpx.get(url, headers={"Cookie": f"a=b; __Host-holdfast_pass={token}"}, verify=False)
    for back in (behind_tls, forwarded):
        assert back.headers["set-cookie"].startswith(f"__Host-holdfast_pass={token}; Path=/; ")
        assert back.headers["set-cookie"].endswith("; Secure")
    assert opened.text == "ada"


def test_a_browser_is_sent_to_the_room_with_the_shops_own_origin_and_never_the_hosts(publisher: Publisher) -> None:
    origin = "https://shop.example.com"
    gatekeeper = Gatekeeper("drop", PublishedKeys(publisher.url), waiting_url=WAITING, origin=origin)
    with asgi_serving(gatekeeper) as url, httpx.Client(base_url=url, verify=False, trust_env=False) as shop:
        answer = checkout(shop, path="/%2fevil.example/x?y=1", Accept="text/html", Host="evil.example")
        wanted = f"{WAITING}?return_to=https%3A%2F%2Fshop.example.com%2Fevil.example%2Fx%3Fy%3D1"
        assert answer.headers["location"] == wanted


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "/%5cevil.example", "/%2f%2fevil.example"])
def test_a_return_never_leaves_the_shop(publisher: Publisher, key: Key, path: str) -> None:
    for serving in (asgi_serving, wsgi_serving):
        with serving(Gatekeeper("drop", PublishedKeys(publisher.url))) as url:
            sent = f"{url}{path}?holdfast_return=1"
            back = httpx.post(sent, data={"holdfast_pass": key.sign(claims())}, verify=False, trust_env=False)
        assert back.status_code == 303
        assert re.match(r"/[^/\\]", back.headers["location"])


def test_a_bad_pass_is_not_returned_to_the_room_again(shop: httpx.Client, key: Key) -> None:
    for token in (key.sign(claims(sale="other")), Key("theirs").sign(claims()), "", "x" * 5_000):
        refused = come_back(shop, token)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
    assert shop.post("/checkout?holdfast_return=1", json={"holdfast_pass": key.sign(claims())}).status_code == 429


def test_the_shops_own_forms_are_left_alone(shop: httpx.Client, key: Key) -> None:
    """Their bodies are for the shop to read, whatever their fields are called."""
    token = key.sign(claims())
    answer = shop.post("/checkout", data={"holdfast_pass": "x"}, headers={"Holdfast-Pass": token})
    assert (answer.status_code, answer.text) == (200, "ada")
