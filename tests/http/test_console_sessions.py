"""Signing in at the console: a cookie stands for a key, for its own pages only, and no longer than the key."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest
from http_calling import body_of, eventually, problem_of
from http_sales import store_of
from http_serving import SERVICE_KEY, Server, connect, started
from http_tokens import buyer_token
from sqlalchemy import create_engine, update

from holdfast.ledger.tables.access import console_sessions

pytest_plugins = ("http_fixtures",)

SESSION = "/v1/console/session"
CONSOLE = {"Holdfast-Console": "1", "Sec-Fetch-Site": "same-origin"}


def sign_in(server: Server, key: str = SERVICE_KEY, **headers: str) -> httpx.Response:
    with server.connect(key) as client:
        return client.post(SESSION, headers=headers)


def cookie_of(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    [[name, morsel]] = SimpleCookie(answer.headers["set-cookie"]).items()
    return {"name": name, "value": morsel.value} | {key: str(value) for key, value in morsel.items() if value}


@contextmanager
def console(server: Server, token: str, **headers: str) -> Iterator[httpx.Client]:
    """What the console's own page sends."""
    with connect(server.url) as client:
        client.headers.update(CONSOLE | {"Cookie": f"holdfast_session={token}"} | headers)
        yield client


@pytest.fixture(scope="module")
def token(embedded: Server) -> str:
    return cookie_of(sign_in(embedded))["value"]


def test_no_script_and_no_other_site_gets_the_cookie(embedded: Server) -> None:
    cookie = cookie_of(sign_in(embedded))
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert cookie["path"] == "/"
    assert 0 < int(cookie["max-age"]) <= 24 * 3600
    assert "secure" not in cookie
    assert SERVICE_KEY not in cookie["value"]


def test_where_the_page_came_by_tls_the_cookie_goes_no_other_way(embedded: Server) -> None:
    for told in ({"Origin": "https://shop.example"}, {"X-Forwarded-Proto": "https"}):
        cookie = cookie_of(sign_in(embedded, **told))
        assert cookie["name"] == "__Host-holdfast_session"
        assert cookie["secure"]
        assert cookie["path"] == "/"
        assert "domain" not in cookie


def test_a_cookie_that_another_host_could_plant_counts_nothing_where_there_is_tls(embedded: Server, token: str) -> None:
    for told in ({"X-Forwarded-Proto": "https"}, {"Referer": "https://shop.example/console"}):
        with console(embedded, token, **told) as client:
            problem_of(client.get(SESSION), 401, "unauthorized")
            client.headers["Cookie"] = f"__Host-holdfast_session={token}"
            assert client.get(SESSION).status_code == 200


def test_a_key_has_at_most_ten_sessions_and_the_oldest_ends(embedded: Server) -> None:
    made = embedded.command("keys", "create", "--name", "many", "--scope", "operate")
    tokens = [cookie_of(sign_in(embedded, made["key"]))["value"] for _ in range(12)]
    statuses = []
    for token in tokens:
        with console(embedded, token) as client:
            statuses.append(client.get(SESSION).status_code)
    assert statuses == [401] * 2 + [200] * 10


def test_what_is_for_one_caller_is_kept_by_no_cache(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(1)
    held = shop.reserve()
    path = f"/v1/reservations/{held.json()['reservation_id']}"
    private = [
        held,
        shop.reserve(),
        shop.available(),
        *map(shop.client.get, (path, "/v1/orders", "/v1/ops/pools", "/nowhere")),
    ]
    for answer in private:
        assert answer.headers["cache-control"] == "no-store", answer.url
        assert answer.headers["x-content-type-options"] == "nosniff", answer.url


@pytest.mark.parametrize("path", ["/console", "/docs", "/s/any", "/lottery/any"])
def test_pages_are_alone_in_their_window_and_stay_with_tls(embedded: Server, path: str) -> None:
    with embedded.connect() as client:
        plain, secure = client.get(path), client.get(path, headers={"X-Forwarded-Proto": "https"})
    assert "strict-transport-security" not in plain.headers
    assert secure.headers["strict-transport-security"] == "max-age=31536000"
    assert plain.headers["cross-origin-opener-policy"] == secure.headers["cross-origin-opener-policy"] == "same-origin"


def test_a_session_may_do_what_its_key_may(embedded: Server, token: str) -> None:
    made = embedded.command("keys", "create", "--name", "watcher", "--scope", "operate")
    watcher = cookie_of(sign_in(embedded, made["key"]))["value"]
    with console(embedded, watcher) as client:
        assert body_of(client.get(SESSION))["scopes"] == ["operate"]
        assert body_of(client.get(SESSION))["name"] == "watcher"
        assert client.get("/v1/ops/parked").status_code == 200
        problem_of(client.get("/v1/sales"), 403, "forbidden")
    with console(embedded, token) as client:
        assert body_of(client.get(SESSION))["scopes"] == ["admin", "inventory", "money", "operate", "read", "sales"]
        assert client.get("/v1/sales").status_code == 200


def test_a_session_works_in_every_lane(embedded: Server, token: str) -> None:
    store = store_of(embedded)
    with console(embedded, token) as client:
        assert client.post("/v1/sales", json=store.terms()).status_code == 201
        assert body_of(client.get(f"/v1/inventory/{store.sku_id}/available"))["available"] == 3
        assert "held" in body_of(client.get(store.path))


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "{own}"},
    ],
)
def test_another_sites_page_cannot_use_the_cookie(embedded: Server, token: str, headers: dict[str, str]) -> None:
    given = {name: value.format(own=embedded.url) for name, value in headers.items()}
    store = store_of(embedded)
    with console(embedded, token, **given) as client:
        problem_of(client.post("/v1/sales", json=store.terms()), 401, "unauthorized")
        problem_of(client.delete(SESSION), 401, "unauthorized")


def test_without_the_header_that_only_the_console_sends_there_is_no_session(embedded: Server, token: str) -> None:
    with connect(embedded.url) as client:
        client.headers.update({"Cookie": f"holdfast_session={token}", "Sec-Fetch-Site": "same-origin"})
        problem_of(client.get("/v1/sales"), 401, "unauthorized")
        problem_of(client.post("/v1/sales", json={}), 401, "unauthorized")


@pytest.mark.parametrize(
    ("origin", "status"), [("{own}", 201), ("https://evil.test", 401), (None, 401), ("null", 401), ("http://[", 401)]
)
def test_a_browser_that_says_less_is_judged_by_the_origin(
    embedded: Server, token: str, origin: str | None, status: int
) -> None:
    store = store_of(embedded)
    with console(embedded, token) as client:
        del client.headers["Sec-Fetch-Site"]
        given = {} if origin is None else {"Origin": origin.format(own=embedded.url)}
        assert client.post("/v1/sales", json=store.terms(), headers=given).status_code == status


def test_a_forged_cookie_is_worth_nothing(embedded: Server, token: str) -> None:
    session_id, _, secret = token.partition(".")
    forged = [f"{session_id}.{secret[:-1]}", f"{session_id}.", session_id, f".{secret}", secret, SERVICE_KEY, "x" * 300]
    for one in forged:
        with console(embedded, one) as client:
            problem_of(client.get("/v1/sales"), 401, "unauthorized")


def test_a_buyer_or_a_session_cannot_begin_one(embedded: Server, token: str) -> None:
    problem_of(sign_in(embedded, buyer_token("ada")), 403, "forbidden")
    problem_of(sign_in(embedded, "hf_" + "0" * 40), 401, "unauthorized")
    with console(embedded, token) as client:
        problem_of(client.post(SESSION), 403, "forbidden")


def test_signing_out_ends_the_session_for_every_copy_of_the_cookie(embedded: Server) -> None:
    token = cookie_of(sign_in(embedded))["value"]
    with console(embedded, token) as client:
        assert client.get("/v1/sales").status_code == 200
        left = client.delete(SESSION)
        assert left.status_code == 204
        assert "Max-Age=0" in left.headers["set-cookie"]
        problem_of(client.get("/v1/sales"), 401, "unauthorized")


def test_a_session_ends_with_its_time(embedded: Server) -> None:
    token = cookie_of(sign_in(embedded))["value"]
    engine = create_engine(f"sqlite:///{embedded.directory / 'data' / 'holdfast.db'}")
    is_it = console_sessions.c.session_id == token.partition(".")[0]
    with engine.begin() as connection:
        connection.execute(update(console_sessions).where(is_it).values(expires_at=1))
    engine.dispose()
    with console(embedded, token) as client:
        problem_of(client.get("/v1/sales"), 401, "unauthorized")


@pytest.mark.slow
def test_another_key_with_every_scope_ends_the_sessions_of_the_one_before(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        token = cookie_of(sign_in(server))["value"]
    another = {"SERVICE_KEY": "hf_" + "another1" * 4}
    with started(tmp_path, settings=another) as server, console(server, token) as client:
        problem_of(client.get("/v1/sales"), 401, "unauthorized")


@pytest.mark.slow
def test_somebody_who_tries_keys_or_cookies_is_slowed_down(tmp_path: Path) -> None:
    with started(tmp_path, settings={"LIMIT_LOOPBACK": "1"}) as server:
        assert sign_in(server, f"hf_{'0' * 32}").status_code == 401
        # Fewer come back than are asked for.
        eventually(lambda: sign_in(server, f"hf_{'1' * 32}").status_code == 429)
        with console(server, "made.up") as client:
            eventually(lambda: client.get("/v1/sales").status_code == 429)
