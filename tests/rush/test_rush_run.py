"""A crowd of a few hundred on real servers: it passes on a good one, and names what a broken one did."""

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
from rush_world import hurried

from holdfast.bench.engines import free_port
from holdfast.bench.processes import clean_environment, python, running
from holdfast.errors import SettingsError
from holdfast.rush.figures import body, busiest_second
from holdfast.rush.rehearsal import Options, Rushed, rehearse
from holdfast.rush.report import report
from holdfast.rush.site import Site, own_site
from holdfast.settings import load_settings

USERS, UNITS = 250, 60


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One server and one payment sandbox for all scenarios."""
    with own_site("sqlite", load_settings(), needs_sandbox=True) as site:
        yield site


def rush(site: Site, name: str, *, users: int = USERS, units: int = UNITS, processes: int = 1) -> Rushed:
    """A gate that is broken may never let go of what is held; a good one does so in moments."""
    return asyncio.run(rehearse(site, Options(hurried(name), users, units, 3, processes, ending_s=60.0)))


def failures(rushed: Rushed) -> dict[str, list[str]]:
    return {finding.name: finding.examples for finding in rushed.findings if not finding.ok}


@pytest.mark.parametrize("name", ["sneaker-drop", "ticket-lottery", "vouchers", "fund-shares", "fifty-products"])
def test_a_rush_of_every_kind_passes(site: Site, name: str) -> None:
    rushed = rush(site, name, units=900 if name == "fund-shares" else UNITS, processes=2 if name == "vouchers" else 1)
    assert failures(rushed) == {}
    assert len(rushed.findings) == 13
    assert len(rushed.testimonies) == USERS
    assert sorted(testimony.number for testimony in rushed.testimonies) == list(range(USERS))
    figures = body(rushed)["figures"]
    assert figures["sold"] > 0
    assert sum(units for _, units in rushed.sold) == figures["sold"]
    assert 0 < figures["fifty_percent_after_s"] <= figures["ninety_percent_after_s"] < figures["seconds"]
    assert sum(figures["endings"].values()) == USERS
    assert figures["endings"].get("cut_off", 0) == 0
    assert figures["latency_ms"]["purchase"]["p50"] > 0
    assert 0 < figures["purchases_per_second_peak"] <= figures["attempts"]
    series = body(rushed)["series"]
    assert series["sold"][-1] == figures["sold"]
    assert max(series["waiting"]) <= figures["longest_line"]


def test_the_busiest_second_may_begin_anywhere() -> None:
    # By tenths of a second: nine before the second is full, and eight after.
    assert busiest_second({5: 3, 9: 9, 18: 8, 19: 1, 40: 2}) == 17
    assert busiest_second({}) == 0


def test_a_report_is_one_page_that_needs_nothing_else(site: Site) -> None:
    page = report(rush(site, "vouchers", users=40, units=10))
    assert ">PASS<" in page
    assert page.count("<svg") >= 5
    assert "not_oversold" in page
    assert not any(word in page for word in ("<script", "src=", "href=", "url(", "@import"))


@contextmanager
def broken_server(directory: Path) -> Iterator[Site]:
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
        yield Site(url, secret, key)


def test_a_gate_that_grants_twice_is_found_out_and_the_invariant_named(tmp_path: Path) -> None:
    with broken_server(tmp_path) as site:
        rushed = rush(site, "vouchers", users=120, units=20)
    assert not rushed.ok
    assert "not_oversold" in failures(rushed)
    assert any("units are sold of 20" in example for example in failures(rushed)["not_oversold"])
    assert "FAIL: " in report(rushed)


@pytest.mark.parametrize(("changed", "says"), [("buyer_secret", "BUYER_SECRET"), ("service_key", "SERVICE_KEY")])
def test_keys_that_the_server_does_not_know_are_found_out_before_anyone_comes(
    site: Site, changed: str, says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        rush(replace(site, **{changed: "hf_" + "x" * 32}), "vouchers")


def test_the_command_starts_a_server_of_its_own_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = python("holdfast", "rush", "--scenario", "vouchers", "--users", "60", "--units", "15", "--json")
    command += ["--report", "r.html"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["ok"] is True
    assert {check["name"] for check in told["checks"]} >= {"yes_kept", "charged_once", "order_kept", "ledger_proven"}
    assert told["figures"]["users"] == 60
    assert told["figures"]["sold"] == 15
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]
