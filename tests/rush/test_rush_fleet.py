"""A crowd simulated by several hosts: their parts make one report, and a part that is missing is noticed."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace
from rush_evidence import OFFER, World

from holdfast.errors import SettingsError
from holdfast.lab.load.processes import clean_environment, python
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.rush.fleet import CLOCK_ERROR_S, Part, combine
from holdfast.lab.rush.run import Options
from holdfast.lab.rush.server.target import Installation, Target, start_target
from holdfast.lab.scenarios.scenario import Scenario
from holdfast.settings import load_settings

USERS, UNITS, SALE = 120, 20, "fleet"


def part(number: int, clock_offset_s: float) -> Part:
    world, options = World(), Options(Scenario(name="x"), 4, 3, 1, sale_id="sale", part=number, parts=2)
    tally = Tally(series={"requests": {5: 1}})
    return Part(
        options, [OFFER], 1.0, 50.0, tally, world.records[number::2], world.samples, 1.0, 10.0, True, clock_offset_s
    )


def test_the_parts_of_one_host_are_put_together_as_they_are() -> None:
    merged = combine([part(0, 10.0), part(1, 10.0)])
    assert sorted(record.number for record in merged.records) == [0, 1, 2, 3]
    assert sorted(merged.records, key=lambda one: one.number) == World().records
    assert merged.tally.series == {"requests": {5: 2}}
    assert (merged.cpu_s, merged.memory_mb, merged.ended_s) == (2.0, 20.0, 50.0)


def test_times_of_another_host_are_moved_to_the_first_ones_clock_and_widened() -> None:
    merged = combine([part(0, 10.0), part(1, 4.0)])
    bob, expected = next(one for one in merged.records if one.number == 1), World().records[1]
    [place], [was] = bob.places, expected.places
    assert place.asked_at == pytest.approx(was.asked_at + 6 - CLOCK_ERROR_S)
    assert place.answered_at == pytest.approx(was.answered_at + 6 + CLOCK_ERROR_S)
    assert place.admitted_at == was.admitted_at + 6
    assert bob.sold_out_at == 0
    assert merged.tally.series == {"requests": {5: 1, 65: 1}}


def test_parts_of_different_crowds_are_refused() -> None:
    other = part(1, 10.0)
    with pytest.raises(SettingsError, match="different crowds"):
        combine([part(0, 10.0), replace(other, options=replace(other.options, seed=2))])


@pytest.fixture
def target() -> Iterator[Target]:
    with start_target(Installation("sqlite", needs_sandbox=False), load_settings()) as target:
        terms = {
            "sale_id": SALE, "sku_id": SALE, "name": "Fleet", "total_units": UNITS, "hold_seconds": 5,
            "price": {"amount": 100, "currency": "EUR"}, "starts_at": "2020-01-01T00:00:00Z", "payment": "external",
            "room": {"mode": "fifo"},
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {target.service_key}"}
        httpx.post(f"{target.url}/v1/sales", json=terms, headers=headers, trust_env=False).raise_for_status()
        yield target


@pytest.mark.slow
def test_two_hosts_make_one_report_and_one_alone_fails(target: Target, tmp_path: Path) -> None:
    keys = {"HOLDFAST_SERVICE_KEY": target.service_key, "HOLDFAST_BUYER_SECRET": target.buyer_secret}
    environment = clean_environment(**keys)
    rush = python("holdfast", "rush", "--url", target.url, "--quiet")
    crowd = ["--users", str(USERS), "--sale", SALE, "--scenario", "vouchers"]
    hosts = [
        subprocess.Popen(
            [*rush, *crowd, "--part", f"{number}/2", "--save", f"{number}.json"], cwd=tmp_path, env=environment
        )
        for number in (1, 2)
    ]
    assert [host.wait(120) for host in hosts] == [0, 0]

    def merged(*files: str) -> dict[str, dict[str, object]]:
        given = [word for file in files for word in ("--merge", file)]
        command = [*rush, *given, "--json", "--report", "report.html"]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False)
        assert ran.returncode in (0, 1), ran.stderr
        told = json.loads(ran.stdout)
        return {"figures": told["figures"]} | {check["name"]: check for check in told["checks"]}

    whole = merged("1.json", "2.json")
    figures = whole.pop("figures")
    assert {name: check["examples"] for name, check in whole.items() if not check["ok"]} == {}
    assert sum(figures["endings"].values()) == USERS  # type: ignore[attr-defined]
    assert (tmp_path / "report.html").is_file()
    half = merged("2.json")
    assert not half["all_accounted"]["ok"]
    assert half["all_accounted"]["count"] == USERS // 2
