"""The storefront's files and identity over HTTP."""

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest
from http_calling import eventually
from http_sales import Store, in_seconds, store_of
from http_serving import Server, run_holdfast, started

from forking import HOLDFAST
from holdfast.bootstrap.stores import database_file
from holdfast.errors import AlreadyRunning, SettingsError
from holdfast.http.web.demo import COOKIE, IDENTITY, PURSE
from holdfast.lab.demo.setup import Drop, claim_directory, prepare
from holdfast.ledger.engine.server_lock import ServerLock
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)

CARDS = "http://127.0.0.1:1"


def ask(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers=headers, verify=False, trust_env=False)


def test_a_sales_page_is_prerendered_and_caches_may_keep_it(quick: Store) -> None:
    quick.open(name="Tide <b>&", description="A vessel.", image_url="https://img.example/x.jpg", locale="de")
    page = ask(quick.server, f"/s/{quick.sale_id}")
    assert page.status_code == 200
    # It has the price in it, which may still change.
    assert page.headers["cache-control"] == "public, max-age=0, s-maxage=1, stale-if-error=300"
    assert page.headers["cache-tag"] == f"sale-{quick.sale_id}"
    assert ask(quick.server, f"/s/{quick.sale_id}", **{"If-None-Match": page.headers["etag"]}).status_code == 304
    text = page.text
    assert "<title>Tide &lt;b&gt;&amp;</title>" in text
    assert "<h1>Tide &lt;b&gt;&amp;</h1>" in text
    assert '<html lang="de">' in text
    assert '<meta property="og:title" content="Tide &lt;b&gt;&amp;">' in text
    assert '<meta property="og:image" content="https://img.example/x.jpg">' in text
    assert "<style" not in text
    assert " style=" not in text
    facts = json.loads(text.partition('id="facts">')[2].partition("</script>")[0])
    assert (facts["sale"]["name"], facts["config"]["demo"]) == ("Tide <b>&", False)
    assert facts["sale"] == ask(quick.server, quick.path).json()


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--<script>", "\u2028", '"><img src=x>'])
def test_nothing_that_a_shop_writes_becomes_markup(quick: Store, text: str) -> None:
    brand = {"name": text.replace("\u2028", "x"), "message": text}
    quick.open(name=text, description=text, brand=brand)
    page = ask(quick.server, f"/s/{quick.sale_id}")
    assert page.text.count("<script") == page.text.count("</script>") == 2
    assert "<img src=x" not in page.text
    assert "unsafe" not in page.headers["content-security-policy"]
    facts = json.loads(page.text.partition('id="facts">')[2].partition("</script>")[0])
    assert (facts["sale"]["name"], facts["sale"]["brand"]) == (text, facts["sale"]["brand"] | brand)


@pytest.mark.parametrize("path", ["/s/nope", "/s/no%20pe", "/s/" + "x" * 300])
def test_a_sale_that_does_not_exist_is_a_page_that_says_so(embedded: Server, path: str) -> None:
    page = ask(embedded, path)
    assert page.status_code == 404
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>Sale not found</h1>" in page.text
    assert page.headers["cache-control"] == "public, max-age=0, s-maxage=1"
    assert "etag" not in page.headers
    assert "script-src 'self'" in page.headers["content-security-policy"]


def test_the_script_and_the_styles_are_one_file_each_for_good_and_compressed(quick: Store) -> None:
    quick.open()
    text = ask(quick.server, f"/s/{quick.sale_id}").text
    files = re.findall(r"/assets/bundle/store-[0-9a-f]{16}\.(?:js|css)", text)
    assert len(files) == 2
    for path in files:
        for encoding in ("br", "gzip"):
            answer = ask(quick.server, path, **{"Accept-Encoding": encoding})
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-encoding"] == encoding
            assert "accept-encoding" in answer.headers["vary"]
        assert "content-encoding" not in ask(quick.server, path, **{"Accept-Encoding": "br;q=0"}).headers
    assert ask(quick.server, "/assets/bundle/store-0000000000000000.js").status_code == 404


def test_the_front_page_lists_what_is_on_sale_and_what_will_be(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        assert "Nothing is on sale right now." in ask(server, "/").text
        now, later, over = (store_of(server) for _ in range(3))
        now.open(name="Now & <b>")
        later.open(name="Later", starts_at=in_seconds(3_600))
        over.open(name="Over")
        over.act("close")
        text = eventually(lambda: front_with(server, "Later"))
        assert f'href="/s/{now.sale_id}"' in text
        assert "Now &amp; &lt;b&gt;" in text
        assert text.index("Now &amp;") < text.index("Later")
        assert "Opens 20" in text
        assert "Over" not in text
        icon = ask(server, "/favicon.ico")
        assert (icon.status_code, icon.content[:4]) == (200, b"\0\0\1\0")


def front_with(server: Server, name: str) -> str:
    """The front page once it shows a sale: it is made anew every two seconds."""
    text = ask(server, "/").text
    return text if name in text else ""


def test_without_a_demo_there_is_no_demo_identity(embedded: Server) -> None:
    assert ask(embedded, "/store/config.json").json() == {
        "token_url": None,
        "demo": False,
        "simulation_url": None,
        "return_origins": [],
        "stripe": None,
        "messages": {"mail": False, "push": None},
    }
    assert ask(embedded, "/demo/identity").status_code == 404


def test_the_page_may_call_the_shops_login_and_nobody_else(tmp_path_factory: pytest.TempPathFactory) -> None:
    login = "https://shop.example.com/login/token"
    with started(tmp_path_factory.mktemp("shop"), settings={"BUYER_TOKEN_URL": login}) as server:
        assert ask(server, "/store/config.json").json() == {
            "token_url": login,
            "demo": False,
            "simulation_url": None,
            "return_origins": [],
            "stripe": None,
            "messages": {"mail": False, "push": None},
        }
        store = store_of(server)
        store.open()
        policy = ask(server, f"/s/{store.sale_id}").headers["content-security-policy"]
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


def test_a_second_demo_is_refused_and_leaves_the_running_drop_open(tmp_path: Path) -> None:
    with started(tmp_path, "--no-crowd", command=(*HOLDFAST, "demo")) as server:
        again = run_holdfast("demo", "--no-crowd", directory=tmp_path, environment=server.environment)
        assert again.returncode != 0
        assert "A demo already runs in" in again.stderr
        sales = server.client.get("/v1/sales").json()["data"]
        assert {sale["sale_id"]: sale["phase"] for sale in sales} == {"demo": "open", "drop-1": "upcoming"}


def test_a_demo_is_refused_where_a_server_runs(tmp_path: Path) -> None:
    settings = load_settings(data=tmp_path, demo=True, payment_sandbox_url=CARDS)
    claim_directory(settings)
    lock = ServerLock(database_file(settings), "server").acquire()
    try:
        with pytest.raises(AlreadyRunning):
            asyncio.run(prepare(settings, 5))
    finally:
        lock.release()
    assert asyncio.run(prepare(settings, 5)) == Drop("drop-1", 5)


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
        config = ask(server, "/store/config.json").json()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/simulation", config.pop("simulation_url"))
        assert config == {
            "token_url": IDENTITY,
            "demo": True,
            "return_origins": [],
            "stripe": None,
            "messages": {"mail": False, "push": None},
        }
        assert ask(server, "/v1/sales/drop-1").json()["room"]["mode"] == "fifo"
        assert ask(server, "/v1/sales/demo/now").json()["state"] == "open"
        eventually(lambda: ask(server, "/v1/sales/drop-1/now").json()["joined"] >= 5, within_s=60)
        assert server.stop() == 0
    settings = load_settings(data=tmp_path / "data", demo=True, payment_sandbox_url=CARDS)
    claim_directory(settings)
    assert asyncio.run(prepare(settings, 5)) == Drop("drop-2", 5)
