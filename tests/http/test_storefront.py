"""The storefront's files and identity over HTTP."""

import asyncio
from pathlib import Path

import httpx
import pytest
from http_calling import eventually
from http_serving import HOLDFAST, Server, started

from holdfast.bootstrap.stores import database_file
from holdfast.errors import SettingsError
from holdfast.http.web.demo import COOKIE, IDENTITY, PURSE
from holdfast.lab.demo.setup import Drop, claim_directory, prepare
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)


def ask(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers=headers, verify=False, trust_env=False)


def test_the_page_is_the_same_for_every_sale_and_caches_may_keep_it(embedded: Server) -> None:
    one, other = ask(embedded, "/s/drop"), ask(embedded, "/s/another")
    assert one.status_code == 200
    assert (one.content, one.headers["etag"]) == (other.content, other.headers["etag"])
    assert one.headers["cache-control"].startswith("public, max-age=60")
    assert b"<style" not in one.content
    assert b" style=" not in one.content
    assert one.content.count(b"<script") == one.content.count(b'<script type="module" src="/assets/')


def test_without_a_demo_there_is_no_demo_identity(embedded: Server) -> None:
    assert ask(embedded, "/store/config.json").json() == {"token_url": None, "demo": False, "return_origins": []}
    assert ask(embedded, "/demo/identity").status_code == 404


def test_the_page_may_call_the_shops_login_and_nobody_else(tmp_path_factory: pytest.TempPathFactory) -> None:
    login = "https://shop.example.com/login/token"
    with started(tmp_path_factory.mktemp("shop"), settings={"BUYER_TOKEN_URL": login}) as server:
        assert ask(server, "/store/config.json").json() == {"token_url": login, "demo": False, "return_origins": []}
        policy = ask(server, "/s/drop").headers["content-security-policy"]
        assert "connect-src 'self' https://shop.example.com; " in policy
        assert "connect-src 'self'; " in ask(server, "/assets/theme.css").headers["content-security-policy"]


def test_nothing_but_the_demo_starts_with_the_demos_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DEMO", "1")
    with pytest.raises(SettingsError, match=r"HOLDFAST_DEMO.*run holdfast demo"):
        load_settings()
    assert load_settings(demo=True).demo


def test_a_demo_keeps_away_from_a_ledger_that_it_did_not_make(tmp_path: Path) -> None:
    settings = load_settings(data=tmp_path, demo=True)
    database_file(settings).touch()
    with pytest.raises(SettingsError, match="was not made by `holdfast demo`"):
        claim_directory(settings)


@pytest.mark.slow
def test_a_demo_has_a_crowd_buyers_with_money_and_a_new_drop_each_time(tmp_path: Path) -> None:
    crowd = ("--units", "3", "--buyers", "5", "--seconds", "1")
    wanted = {"BUYER_AUDIENCE": "shop", "BUYER_ISSUER": "https://login.example"}
    with started(tmp_path, *crowd, command=(*HOLDFAST, "demo"), settings=wanted) as server:
        with httpx.Client(base_url=server.url, verify=False, trust_env=False) as browser:
            first, again, other = browser.get(IDENTITY), browser.get(IDENTITY), ask(server, IDENTITY)
        buyer_id = first.json()["buyer_id"]
        assert again.json()["buyer_id"] == buyer_id != other.json()["buyer_id"]
        assert first.headers["set-cookie"].startswith(f"{COOKIE}=")
        assert "HttpOnly" in first.headers["set-cookie"]
        assert server.client.get(f"/v1/wallets/{buyer_id}").json()["balance"] == PURSE
        assert ask(server, IDENTITY, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert ask(server, "/store/config.json").json() == {"token_url": IDENTITY, "demo": True, "return_origins": []}
        assert ask(server, "/v1/sales/drop-1").json()["room"]["mode"] == "fifo"
        assert ask(server, "/v1/sales/demo/now").json()["state"] == "open"
        eventually(lambda: ask(server, "/v1/sales/drop-1/now").json()["joined"] >= 5, within_s=60)
        assert server.stop() == 0
    settings = load_settings(data=tmp_path / "data", demo=True)
    claim_directory(settings)
    assert asyncio.run(prepare(settings, 5)) == Drop("drop-2", 5)
