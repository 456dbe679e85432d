"""A few hundred simulated buyers on real servers: a correct one passes, and a broken one is detected."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace
from rush_evidence import hurried

from holdfast.errors import SettingsError
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.processes import clean_environment, python, running
from holdfast.lab.rush.checks.invariants import CHECKS
from holdfast.lab.rush.report.figures import body, busiest_second
from holdfast.lab.rush.report.html_report import report
from holdfast.lab.rush.run import Options, RushResult, run_rush
from holdfast.lab.rush.server.target import Installation, Target, start_target
from holdfast.settings import load_settings

USERS, UNITS = 250, 60

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """One server and one payment sandbox for all scenarios."""
    with start_target(Installation("sqlite", needs_sandbox=True), load_settings()) as target:
        yield target


def rush(target: Target, name: str, *, users: int = USERS, units: int = UNITS, processes: int = 1) -> RushResult:
    """A broken gate may never release its holds; a correct one does so at once."""
    return asyncio.run(run_rush(target, Options(hurried(name), users, units, 3, processes, ending_s=60.0)))


def failures(result: RushResult) -> dict[str, list[str]]:
    return {finding.name: finding.examples for finding in result.findings if not finding.ok}


@pytest.mark.parametrize("name", ["sneaker-drop", "ticket-lottery", "vouchers", "fund-shares", "fifty-products"])
def test_a_rush_of_every_kind_passes(target: Target, name: str) -> None:
    result = rush(target, name, units=900 if name == "fund-shares" else UNITS, processes=2 if name == "vouchers" else 1)
    assert failures(result) == {}
    assert [finding.name for finding in result.findings] == [*CHECKS, "ledger_proven"]
    assert len(result.records) == USERS
    assert sorted(record.number for record in result.records) == list(range(USERS))
    figures = body(result)["figures"]
    assert figures["sold"] > 0
    assert sum(units for _, units in result.sold) == figures["sold"]
    assert 0 < figures["fifty_percent_after_s"] <= figures["ninety_percent_after_s"] < figures["seconds"]
    assert sum(figures["endings"].values()) == USERS
    assert figures["endings"].get("cut_off", 0) == 0
    assert figures["latency_ms"]["purchase"]["p50"] > 0
    assert 0 < figures["purchases_per_second_peak"] <= figures["attempts"]
    series = body(result)["series"]
    assert series["sold"][-1] == figures["sold"]
    assert max(series["waiting"]) <= figures["longest_line"]


def test_fifty_products_at_once_pass_where_redis_decides() -> None:
    with start_target(Installation("redis", needs_sandbox=False), load_settings()) as target:
        result = rush(target, "fifty-products", users=2 * USERS, units=2 * UNITS)
    assert failures(result) == {}
    assert body(result)["figures"]["sold"] > 0


def test_the_busiest_second_may_start_at_any_bin() -> None:
    # In bins of a tenth of a second.
    assert busiest_second({5: 3, 9: 9, 18: 8, 19: 1, 40: 2}) == 17
    assert busiest_second({}) == 0


def test_a_report_is_one_self_contained_page(target: Target) -> None:
    page = report(rush(target, "vouchers", users=40, units=10))
    assert ">PASS<" in page
    assert page.count("<figure>") >= 5
    assert "not_oversold" in page
    assert not any(word in page for word in ("src=", "href=", "url(", "@import", "fetch("))


@contextmanager
def broken_server(directory: Path) -> Iterator[Target]:
    """A real server whose gate grants every unit twice."""
    port, key, secret = free_port(), "hf_" + secrets.token_hex(16), secrets.token_hex(16)
    command = [sys.executable, str(Path(__file__).with_name("broken_gate.py")), "serve", "--port", str(port)]
    environment = clean_environment(
        HOLDFAST_SERVICE_KEY=key, HOLDFAST_BUYER_SECRET=secret, HOLDFAST_DATA=str(directory / "data")
    )
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        try:
            return httpx.get(f"{url}/healthz/ready", verify=False, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    with running("broken", command, directory, environment) as process:
        process.await_ready(is_ready, 90.0)
        yield Target(url, secret, key)


def test_a_gate_that_grants_twice_fails_the_rush_and_the_invariant_is_named(tmp_path: Path) -> None:
    with broken_server(tmp_path) as target:
        result = rush(target, "vouchers", users=120, units=20)
    assert not result.ok
    assert "not_oversold" in failures(result)
    assert any("units are sold of 20" in example for example in failures(result)["not_oversold"])
    assert "FAIL: " in report(result)


@pytest.mark.parametrize(("changed", "says"), [("buyer_secret", "BUYER_SECRET"), ("service_key", "SERVICE_KEY")])
def test_keys_that_the_server_rejects_are_reported_before_any_arrival(target: Target, changed: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        rush(replace(target, **{changed: "hf_" + "x" * 32}), "vouchers")


def test_the_command_starts_its_own_server_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = python("holdfast", "rush", "--scenario", "vouchers", "--users", "60", "--units", "15", "--json")
    command += ["--report", "r.html"]
    wanted = {"HOLDFAST_BUYER_AUDIENCE": "shop", "HOLDFAST_BUYER_ISSUER": "https://login.example"}
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env=clean_environment() | wanted,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["ok"] is True
    assert {check["name"] for check in told["checks"]} >= {"yes_kept", "charged_once", "order_kept", "ledger_proven"}
    assert told["figures"]["users"] == 60
    assert told["figures"]["sold"] == 15
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]
