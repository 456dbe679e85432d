"""The bench on real engines, with meaningless short rounds: its output, its checks and its drivers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bench_command import run
from msgspec.structs import replace
from typer.testing import CliRunner

from holdfast.lab.commands import bench as command
from holdfast.lab.load import driver, wrk
from holdfast.lab.load.failure import BenchFailed
from holdfast.lab.load.servers import CheckedLoad, check_taken
from holdfast.lab.load.spec import NUMBER, Load, LoadResult

GATE_FIGURES = {
    "holdfast_1", "holdfast_16", "holdfast_64", "holdfast", "holdfast_1024", "holdfast_keyed", "holdfast_limited",
    "sold_out", "sold_out_keyed", "conditional_update", "for_update", "skip_locked", "skip_locked_16", "skip_locked_64",
}  # fmt: skip
REDIS_FIGURES = {
    "holdfast_1", "holdfast_16", "holdfast_64", "holdfast", "holdfast_1024", "holdfast_keyed", "holdfast_limited",
    "sold_out", "sold_out_keyed", "sold_out_redis", "call_per_command", "unbatched",
    "holdfast_no_fsync", "call_per_command_no_fsync", "unbatched_no_fsync",
}  # fmt: skip
HTTP_FIGURES = {
    "holdfast", "holdfast_keyed", "sold_out", "available", "bare_handler", "bare_rsgi", "tutorial",
    "tutorial_sold_out", "purchases", "sold_out_keyed",
}  # fmt: skip


def check_shape(report: dict[str, Any], figures: set[str]) -> None:
    assert set(report["figures"]) == figures
    assert all(value > 0 for value in report["figures"].values())
    assert all(0 < each["p50"] <= each["p99"] for each in report["latency_ms"].values())
    assert {"cores", "python", "platform", "sqlite", "engine", "date"} <= set(report["machine"])


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_gate_is_compared_with_its_baselines(engine: str) -> None:
    report = run("gate", "--engine", engine, "--seconds", "0.1")
    check_shape(report, GATE_FIGURES)
    figures, ratios = report["figures"], report["ratios"]
    assert set(ratios) == {"conditional_update", "for_update", "skip_locked", "skip_locked_16", "skip_locked_64"}
    assert ratios["for_update"] == pytest.approx(figures["holdfast"] / figures["for_update"], rel=0.01)
    assert figures["skip_locked"] == max(figures["skip_locked_16"], figures["skip_locked_64"])
    assert report["machine"]["postgres"]


def test_the_redis_gate_is_compared_with_one_call_per_command() -> None:
    report = run("gate", "--engine", "redis", "--seconds", "0.1")
    check_shape(report, REDIS_FIGURES)
    figures, ratios = report["figures"], report["ratios"]
    assert ratios["call_per_command"] == pytest.approx(figures["holdfast"] / figures["call_per_command"], rel=0.01)


@pytest.mark.parametrize(("engine", "more"), [("sqlite", set()), ("redis", {"holdfast_two"})])
def test_the_server_is_measured_over_sockets_by_our_own_driver(engine: str, more: set[str]) -> None:
    quick = ("--driver", "own", "--seconds", "0.2", "--connections", "32", "--no-go-peer")
    report = run("http", "--engine", engine, *quick)
    check_shape(report, HTTP_FIGURES | more)
    figures, ratios = report["figures"], report["ratios"]
    assert ratios["tutorial"] == pytest.approx(figures["holdfast"] / figures["tutorial"], rel=0.01)
    assert ratios["sold_out_of_bare"] == pytest.approx(figures["sold_out"] / figures["bare_handler"], rel=0.01)
    assert set(report["latency_ms"]) == {"reserve", "available", "one_at_a_time"}
    assert report["machine"]["go_peer"] is None
    assert report["memory_mb"]["before"] > 0
    assert report["memory_mb"]["attempts"] > 0
    assert report["machine"]["driver"] == "own"
    if more:
        assert ratios["two_of_one"] == pytest.approx(figures["holdfast_two"] / figures["holdfast"], rel=0.01)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_room_is_compared_with_a_bare_handler(engine: str) -> None:
    report = run("room", "--engine", engine, "--seconds", "0.2", "--connections", "32")
    check_shape(
        report, {"joins", "joins_desk", "now", "bare_handler", "bare_rsgi", "refusals", "purchases", "overload"}
    )
    figures, ratios = report["figures"], report["ratios"]
    assert ratios["bare_handler"] == pytest.approx(figures["now"] / figures["bare_handler"], rel=0.01)
    assert ratios["overload_of_peak"] == pytest.approx(figures["overload"] / figures["purchases"], rel=0.01, abs=0.001)
    assert set(report["latency_ms"]) == {"joins_desk", "join", "now", "sold_out", "sold_out_bare"}
    assert report["memory_mb"]["attempts"] > 0


@asynccontextmanager
async def serving(delay_s: float = 0.0, status: str = "200 OK") -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers after a delay; yields its port and the bodies it received."""
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                bodies.append(await reader.readexactly(int(length or 0)))
                await asyncio.sleep(delay_s)
                # In two pieces, as a network may deliver it.
                writer.write(f"HTTP/1.1 {status}\r\nContent-Le".encode())
                await asyncio.sleep(0)
                writer.write(b"ngth: 2\r\n\r\n{}")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], bodies


def load(port: int, **given: Any) -> Load:
    return replace(Load(port, "POST", "/", f'{{"number":"{NUMBER}"}}', connections=4, seconds=0.3), **given)


async def test_a_closed_loop_numbers_its_requests_and_counts_every_response() -> None:
    async with serving() as (port, bodies):
        result = await driver.run(load(port, requests=50))
    assert result.statuses == {200: 50}
    assert (result.good, result.refused, result.failed) == (50, 0, 0)
    assert {json.loads(body)["number"] for body in bodies} == {f"{number:012}" for number in range(1, 51)}


async def test_refusals_are_counted_separately() -> None:
    async with serving(status="409 Conflict") as (port, _):
        result = await driver.run(load(port, requests=10))
    assert (result.good, result.refused, result.statuses) == (0, 10, {409: 10})


async def test_an_open_loop_counts_the_waiting_time_of_delayed_requests() -> None:
    # One connection and 50 ms per response: 20 a second are served and 100 are due, so the last waits over a second.
    async with serving(delay_s=0.05) as (port, _):
        result = await driver.run(load(port, connections=1, rate_per_second=100.0))
    assert sum(result.statuses.values()) == 30
    assert result.latency is not None
    assert result.latency.p99_ms > 1000
    # A closed loop on the same server would report 50 ms.
    assert result.elapsed_s > 1.4


async def test_a_connection_that_breaks_fails_the_measurement() -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(BenchFailed, match="closed a connection"):
            await driver.run(load(port))


@pytest.mark.skipif(not wrk.is_there(), reason="wrk is not installed")
async def test_wrk_sends_what_our_driver_sends() -> None:
    async with serving() as (port, bodies):
        result = await asyncio.to_thread(wrk.drive, load(port, seconds=1.0))
    assert result.good > 0
    assert (result.refused, result.failed) == (0, 0)
    numbers = [json.loads(body)["number"] for body in bodies]
    assert len(set(numbers)) == len(numbers) >= result.good
    assert all(len(number) == 12 for number in numbers)


@pytest.mark.parametrize(("taken", "cut_off"), [(9, 0), (11, 0), (15, 4)])
def test_a_count_that_differs_from_the_database_is_a_failure(taken: int, cut_off: int) -> None:
    with pytest.raises(BenchFailed, match="10 were granted"):
        check_taken("pool", LoadResult(10, 0, 1.0, cut_off=cut_off), taken)


def test_a_count_may_only_miss_responses_nobody_waited_for() -> None:
    check_taken("pool", LoadResult(10, 0, 1.0), 10)
    check_taken("pool", LoadResult(10, 0, 1.0, cut_off=4), 14)


@pytest.mark.parametrize(
    "result",
    [LoadResult(9, 1, 1.0), LoadResult(10, 0, 1.0, failed=1), LoadResult(10, 0, 1.0, statuses={200: 9, 204: 1})],
)
def test_an_unexpected_status_is_a_failure(result: LoadResult) -> None:
    with pytest.raises(BenchFailed, match="wanted 200 only"):
        CheckedLoad(load(1), 200, lambda _: None).verify("figure", result)


def test_a_failed_measurement_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise BenchFailed("10 were granted, but 9 units are gone")

    monkeypatch.setattr(command, "bench_gate", fail)
    monkeypatch.setattr("holdfast.lab.commands.bench.signal.signal", lambda *_: None)
    result = CliRunner().invoke(command.app, ["gate"])
    assert result.exit_code == 1
    assert "9 units are gone" in result.output


def test_wrong_use_exits_with_2() -> None:
    assert CliRunner().invoke(command.app, ["gate", "--engine", "abacus"]).exit_code == 2
    assert CliRunner().invoke(command.app, ["http", "--seconds", "0"]).exit_code == 2
