"""Emptying the caches when a sale changes, and filling them before it opens."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from edge_serving import edge_of
from http_calling import eventually
from http_sales import Store, body_of, in_seconds, store_of
from http_serving import started

from holdfast.caches.sale_watcher import AGAIN_S, INTERVAL_S

pytest_plugins = ("http_fixtures",)


class Cdn:
    """Takes purges, and keeps what it was told."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.purged: list[tuple[str, str, str | None]] = []


@contextmanager
def cdn() -> Iterator[Cdn]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.purged.append((self.path, body["tags"][0], self.headers["Authorization"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Cdn(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def sell_out(store: Store) -> None:
    bought = store.buy("x", 1)
    assert store.server.client.post(f"/v1/reservations/{bought['reservation_id']}/confirm").status_code == 200


def cache_file(directory: Path, name: str, key: str) -> Path:
    file = directory / name
    file.write_bytes(
        b"\x05\x00\x00\x00" + bytes(range(200)) + b"\nKEY: " + key.encode() + b"\nHTTP/1.1 200 OK\r\n\r\n{}"
    )
    return file


def test_a_purge_removes_the_files_of_one_sale_and_no_other(quick: Store, tmp_path: Path) -> None:
    ours = [
        "now s1",
        "facts s1",
        "http/s/s1 gzip",
        "http/lottery/s1 ",
        "http/s/s1?utm=x ",
        "http/v1/sales/s1/lottery/x ",
    ]
    others = ["now s11", "facts s-s1", "http/s/s1x ", "http/assets/s1 ", "available s1 0"]
    files = {key: cache_file(tmp_path, str(n), key) for n, key in enumerate([*ours, *others])}
    answer = quick.server.command("edge", "purge", "s1", "--cache", str(tmp_path))
    assert answer == {"sale_id": "s1", "ok": True, "files": len(ours), "cdn_status": None}
    assert [key for key, file in files.items() if file.exists()] == others
    assert quick.server.command("edge", "purge", "s1", "--cache", str(tmp_path / "missing"))["files"] == 0


def test_a_purge_calls_the_cdn_with_the_tag_that_answers_carry(quick: Store) -> None:
    quick.open()
    with cdn() as found:
        quick.server.command("edge", "purge", quick.sale_id, "--url", f"{found.url}/purge")
        quick.server.command("edge", "purge", quick.sale_id, "--url", f"{found.url}/purge/{{tag}}")
    tag = quick.now().headers["cache-tag"]
    assert [(path, tag) for path, tag, _ in found.purged] == [("/purge", tag), (f"/purge/{tag}", tag)]
    status, out, _ = quick.server.run("edge", "purge", "s", "--url", found.url, "--json")
    assert (status, json.loads(out)["cdn_status"]) == (1, 0)
    assert quick.server.run("edge", "purge", "s")[0] == 2


@pytest.mark.slow
def test_a_sale_that_sells_out_comes_back_and_changes_is_purged_by_itself(tmp_path: Path) -> None:
    with cdn() as found, started(tmp_path, settings={"EDGE_PURGE_URL": found.url, "EDGE_PURGE_TOKEN": "t"}) as server:
        store = store_of(server)
        store.open(total_units=1, payment="external")
        changes: list[Callable[[], object]] = [
            lambda: sell_out(store),
            lambda: body_of(store.act("restock", units=1)),
            lambda: body_of(store.change(name="Other")),
        ]
        for change in changes:
            count = _quiet_count(found)
            change()
            eventually(partial(_was_told, found, count, f"sale-{store.sale_id}"))


def _was_told(found: Cdn, since: int, tag: str) -> bool:
    return ("/", tag, "Bearer t") in found.purged[since:]


def _quiet_count(found: Cdn) -> int:
    """How many purges there were, once the second one of the last change is over."""
    count = -1
    while count != len(found.purged):
        count = len(found.purged)
        threading.Event().wait(AGAIN_S + 2 * INTERVAL_S)
    return count


@pytest.mark.slow
def test_warm_fills_the_cache_of_nginx_and_says_what_it_keeps(tmp_path: Path) -> None:
    with started(tmp_path) as server, edge_of(server) as edge:
        store = store_of(server)
        store.open(starts_at=in_seconds(3_600), image_url=f"{edge.url}/assets/store/tidewater.svg")
        first = server.command("edge", "warm", store.sale_id, "--url", edge.url)
        paths = {item["path"]: item for item in first["items"]}
        assert first["ok"] is True
        assert [paths[f"/s/{store.sale_id}"][name] for name in ("status", "first", "then")] == [200, "MISS", "HIT"]
        assert {store.path, f"{store.path}/now", "/assets/store/tidewater.svg"} <= paths.keys()
        bundles = [path for path in paths if path.startswith("/assets/bundle/")]
        assert len(bundles) == 2
        with edge.connect() as client:
            assert [client.get(path).headers["holdfast-cache"] for path in bundles] == ["HIT", "HIT"]
            lottery = f"/lottery/{store.sale_id}"
            assert [client.get(lottery).headers["holdfast-cache"] for _ in range(2)] == ["MISS", "HIT"]
        purged = server.command("edge", "purge", store.sale_id, "--cache", str(edge.state))
        assert purged["files"] >= 1
        with edge.connect() as client:
            assert [client.get(path).headers["holdfast-cache"] for path in (lottery, f"/s/{store.sale_id}")] == [
                "MISS"
            ] * 2
        assert server.run("edge", "warm", "nothing", "--url", edge.url)[0] == 1


@pytest.mark.slow
def test_a_sale_is_warmed_by_itself_before_it_opens(tmp_path: Path) -> None:
    with started(tmp_path) as origin, edge_of(origin) as edge:
        store = store_of(origin)
        store.open(starts_at=in_seconds(200))
        origin.stop()
        with started(tmp_path, settings={"EDGE_URL": edge.url}) as server:
            eventually(lambda: any(line.get("event") == "cache_warmed" for line in server.log_lines))


def test_shared_caches_keep_what_is_final_for_a_second_too_without_a_purge(quick: Store) -> None:
    quick.open(total_units=1, payment="external")
    sell_out(quick)
    kept = eventually(lambda: _final(quick.now()))
    assert kept == "public, max-age=1, s-maxage=1, stale-while-revalidate=5"


@pytest.mark.slow
def test_shared_caches_keep_what_is_final_longer_where_it_is_purged(tmp_path: Path) -> None:
    with started(tmp_path, settings={"EDGE_CACHE_DIRECTORIES": str(tmp_path / "cache")}) as server:
        store = store_of(server)
        store.open(total_units=1, payment="external")
        assert "s-maxage=1," in store.now().headers["cache-control"]
        sell_out(store)
        kept = eventually(lambda: _final(store.now()))
        assert kept == "public, max-age=1, s-maxage=30, stale-if-error=60"


def _final(now: httpx.Response) -> str:
    return now.headers["cache-control"] if now.json()["state"] == "sold_out" else ""
