"""The storefront's files and identity over HTTP."""

import httpx
import pytest
from http_serving import HOLDFAST, Server, run_holdfast, settings_of, started

from holdfast.http.routes.demo import COOKIE, PURSE

pytest_plugins = ("http_fixtures",)


def ask(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers=headers, trust_env=False)


def test_the_page_is_the_same_for_every_sale_and_caches_may_keep_it(embedded: Server) -> None:
    one, other = ask(embedded, "/s/drop"), ask(embedded, "/s/another")
    assert one.status_code == 200
    assert (one.content, one.headers["etag"]) == (other.content, other.headers["etag"])
    assert one.headers["cache-control"].startswith("public, max-age=60")
    assert b"<style" not in one.content
    assert b" style=" not in one.content
    assert one.content.count(b"<script") == one.content.count(b'<script type="module" src="/assets/')


def test_without_a_demo_there_is_no_demo_identity(embedded: Server) -> None:
    assert ask(embedded, "/store/config.json").json() == {"token_url": None, "demo": False}
    assert ask(embedded, "/demo/identity").status_code == 404


def test_the_page_may_call_the_shops_login_and_nobody_else(tmp_path_factory: pytest.TempPathFactory) -> None:
    login = "https://shop.example.com/login/token"
    with started(tmp_path_factory.mktemp("shop"), settings={"BUYER_TOKEN_URL": login}) as server:
        assert ask(server, "/store/config.json").json() == {"token_url": login, "demo": False}
        policy = ask(server, "/s/drop").headers["content-security-policy"]
        assert "connect-src 'self' https://shop.example.com; " in policy
        assert "connect-src 'self'; " in ask(server, "/assets/look.css").headers["content-security-policy"]


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_nothing_but_the_demo_starts_with_the_demos_setting(
    tmp_path_factory: pytest.TempPathFactory, command: str
) -> None:
    directory = tmp_path_factory.mktemp("refused")
    ran = run_holdfast(command, directory=directory, environment=settings_of(directory, {"DEMO": "1"}))
    assert ran.returncode == 2
    assert "HOLDFAST_DEMO" in ran.stderr
    assert "holdfast demo" in ran.stderr


def test_a_demo_keeps_away_from_a_ledger_that_it_did_not_make(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("theirs")
    environment = settings_of(directory, {})
    made = run_holdfast("pools", "create", "a", "--units", "1", directory=directory, environment=environment)
    assert made.returncode == 0
    ran = run_holdfast("demo", "--no-crowd", directory=directory, environment=environment)
    assert ran.returncode == 2
    assert "was not made by `holdfast demo`" in ran.stderr


def test_each_browser_of_a_demo_is_a_buyer_with_money_and_a_new_drop_is_there_each_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("demo")
    with started(directory, "--no-crowd", command=(*HOLDFAST, "demo")) as server:
        with httpx.Client(base_url=server.url, trust_env=False) as browser:
            first, again = browser.get("/demo/identity"), browser.get("/demo/identity")
            assert (
                first.json()["buyer_id"] == again.json()["buyer_id"] != ask(server, "/demo/identity").json()["buyer_id"]
            )
            cookie = first.headers["set-cookie"]
            assert cookie.startswith(f"{COOKIE}=")
            assert "HttpOnly" in cookie
            buyer = first.json()["buyer_id"]
        assert server.client.get(f"/v1/wallets/{buyer}").json()["balance"] == PURSE
        assert ask(server, "/demo/identity", **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert ask(server, "/v1/sales/drop-1").json()["room"]["mode"] == "fifo"
        assert ask(server, "/v1/sales/demo/now").json()["state"] == "open"
        assert server.stop() == 0
    with started(directory, "--no-crowd", command=(*HOLDFAST, "demo")) as server:
        assert ask(server, "/v1/sales/drop-2/now").json()["state"] == "upcoming"
        assert ask(server, "/v1/sales/drop-1/now").json()["state"] == "ended"
