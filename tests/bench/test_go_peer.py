"""The Go peer, compiled here: what it answers is right, durable and counted as ours is."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from bench_command import run
from msgspec.structs import replace

from databases import empty_postgres_database
from holdfast.lab.bench.baselines.go_peer import BUILD_TIMEOUT_S, PeerAbsent, build_peer, go_server
from holdfast.lab.load import driver
from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.load.servers import Holdfast

# The speed of SQLite does not matter here, and compiling it unoptimised takes a sixth of the time.
UNOPTIMISED = "-O0"
STOCK = 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CGO_CFLAGS", UNOPTIMISED)
        try:
            yield build_peer(tmp_path_factory.mktemp("go"))
        except PeerAbsent as exc:
            pytest.skip(f"THE GO PEER IS NOT TESTED: {exc}")


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else empty_postgres_database(request.getfixturevalue("postgres_url"))


@contextmanager
def buying(peer: Holdfast, token: bytes | None = None) -> Iterator[httpx.Client]:
    signed = BuyerTokens(peer.buyer_secret).sign("ada") if token is None else token
    headers = {"Authorization": f"Bearer {signed.decode()}", "Idempotency-Key": "once"}
    with httpx.Client(base_url=f"http://127.0.0.1:{peer.port}", headers=headers, trust_env=False) as client:
        yield client


def test_no_more_is_sold_than_there_is_and_every_refusal_is_counted(
    program: Path, database_url: str | None, tmp_path: Path
) -> None:
    with go_server(program, tmp_path, database_url) as peer:
        for checked in (peer.purchases(units=STOCK), peer.reserve(units=STOCK)):
            result = driver.drive(replace(checked.load, connections=32, requests=200))
            assert result.good == STOCK
            assert result.statuses[409] == 200 - STOCK
            checked.check(result)
        assert peer.purchases(units=0).status == 409


def test_a_repeat_gets_the_same_answer_even_after_a_crash(
    program: Path, database_url: str | None, tmp_path: Path
) -> None:
    with go_server(program, tmp_path, database_url) as peer, buying(peer) as client:
        path = peer.purchases(units=1).load.path
        first = client.post(path, json={"quantity": 1})
        assert first.status_code == 201
        again = client.post(path, json={"quantity": 1})
        assert (again.status_code, again.json()["reservation_id"]) == (200, first.json()["reservation_id"])
        other = client.post(path, json={"quantity": 1}, headers={"Idempotency-Key": "twice"})
        assert (other.status_code, other.json()["reason"]) == (409, "sold_out")
        os.kill(peer.process.pid, signal.SIGKILL)
    with go_server(program, tmp_path, database_url) as peer, buying(peer) as client:
        kept = client.post(path, json={"quantity": 1})
        assert (kept.status_code, kept.json()["reservation_id"]) == (200, first.json()["reservation_id"])
        assert client.post(path, json={"quantity": 1}, headers={"Idempotency-Key": "twice"}).status_code == 409


def test_only_signed_tokens_and_the_service_key_are_accepted(program: Path, tmp_path: Path) -> None:
    with go_server(program, tmp_path, None) as peer:
        sold, reserved = peer.purchases(units=1).load.path, peer.reserve(units=1).load.path
        ours, stranger = BuyerTokens(peer.buyer_secret), BuyerTokens("of another service")
        for token in (stranger.sign("ada"), ours.unsigned("ada"), ours.sign("ada")[:-2], b".", b"a.b.c", b"..."):
            with buying(peer, token) as client:
                assert client.post(sold, json={"quantity": 1}).status_code == 401, token
                assert client.post(reserved, json={"owner_id": "ada", "quantity": 1}).status_code == 401, token
        with buying(peer) as client:
            assert client.post(reserved, json={"owner_id": "ada", "quantity": 1}).status_code == 401
            assert client.post(sold, content=b"{").status_code == 422
            assert client.post(sold, json={"quantity": 0}).status_code == 422


@pytest.mark.usefixtures("program")
def test_the_server_is_compared_with_the_go_peer() -> None:
    quick = ("--driver", "own", "--seconds", "0.2", "--connections", "16")
    report = run("http", *quick, timeout_s=BUILD_TIMEOUT_S)
    figures, ratios = report["figures"], report["ratios"]
    assert ratios["go"] == pytest.approx(figures["holdfast"] / figures["go"], rel=0.01)
    assert ratios["go_purchases"] == pytest.approx(figures["purchases"] / figures["go_purchases"], rel=0.01)
    assert ratios["go_sold_out"] == pytest.approx(figures["sold_out_keyed"] / figures["go_sold_out"], rel=0.01)
    timed = {"reserve", "available", "one_at_a_time"}
    assert set(report["latency_ms"]) == timed | {f"go_{name}" for name in timed}
    assert report["machine"]["go_peer"].startswith("go")


def test_without_go_the_peer_is_absent_and_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerAbsent, match="go is not on the PATH"):
        build_peer(tmp_path)
