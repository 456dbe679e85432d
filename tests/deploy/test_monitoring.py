"""Alerts and dashboards: every metric they name exists, every alert has a runbook and fires, one of them for real."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from http_calling import eventually
from http_sales import body_of, store_of
from http_serving import SERVICE_KEY, started

from holdfast.lab.dashboard import dashboard
from holdfast.lab.load.engines import free_port
from holdfast.lab.metric_table import known_metrics

pytest_plugins = ("http_fixtures",)

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/rules.yml"
RULES_TEST = RULES.with_name("rules_test.yml")
RUNBOOK = ROOT / "docs/RUNBOOK.md"
_NAME = re.compile(r"\bholdfast_[a-z0-9_]+")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, f"{name} is missing: make deploy-tools"
    return found


def test_every_metric_that_rules_and_dashboards_name_exists() -> None:
    known = {series for one in known_metrics() for series in one.series}
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for text in (RULES.read_text(), dashboard(), RULES_TEST.read_text()):
        assert set(_NAME.findall(text)) - known == set()
        assert set(re.findall(r"\bholdfast:[a-z0-9_:]+", text)) <= recorded


@cache
def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dashboard())["panels"]
    return found


def shown(name: str) -> str:
    [panel] = [one for one in panels() if one["title"] == name]
    expression: str = panel["targets"][0]["expr"]
    return expression


def test_a_panel_shows_the_process_that_is_worst_off_or_all_of_them_together() -> None:
    assert shown("Check passes") == "min by (check) (holdfast_check_passes)"
    assert shown("Replica fit") == "min by (replica) (holdfast_replica_fit)"
    assert shown("Redis memory headroom ratio") == "min (holdfast_redis_memory_headroom_ratio)"
    assert shown("Lag seconds") == "max by (work) (holdfast_lag_seconds)"
    assert shown("Requests in flight") == "sum (holdfast_requests_in_flight)"


def test_times_are_shown_in_the_unit_that_grafana_counts_in() -> None:
    last = "max by (agent) (holdfast_agent_last_success_timestamp_seconds)"
    assert shown("Agent last success timestamp seconds") == f"{last} * 1000"


def test_the_dashboard_shows_every_metric_and_no_two_panels_overlap() -> None:
    board = json.loads(dashboard())
    text = json.dumps(board)
    assert all(any(series in text for series in one.series) for one in known_metrics())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_alert_has_a_severity_a_runbook_and_two_unit_tests() -> None:
    sections = {line.removeprefix("## ").lower() for line in RUNBOOK.read_text().splitlines() if line.startswith("## ")}
    tested = [one["name"] for one in yaml.safe_load(RULES_TEST.read_text())["tests"]]
    for alert in alerts():
        name, page = alert["alert"], alert["annotations"]["runbook_url"]
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert page == f"docs/RUNBOOK.md#{name.lower()}"
        assert name.lower() in sections
        assert {f"{name} fires", f"{name} is quiet"} <= set(tested)


@pytest.mark.slow
def test_promtool_fires_every_alert() -> None:
    for command in (["check", "rules", RULES.name], ["test", "rules", RULES_TEST.name]):
        ran = subprocess.run(
            [tool("promtool"), *command], cwd=RULES.parent, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


@contextmanager
def prometheus(directory: Path, target: str) -> Iterator[httpx.Client]:
    port = free_port()
    (directory / "key").write_text(SERVICE_KEY)
    config = yaml.safe_load(RULES.with_name("prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES)]
    [job] = config["scrape_configs"]
    job["authorization"]["credentials_file"] = str(directory / "key")
    job["static_configs"] = [{"targets": [target]}]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        tool("prometheus"), f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (directory / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                yield client
        finally:
            process.terminate()


def firing(client: httpx.Client) -> set[str]:
    try:
        found = client.get("/api/v1/alerts").json()["data"]["alerts"]
    except httpx.TransportError:
        return set()
    return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}


@pytest.mark.slow
def test_a_running_prometheus_pages_when_more_was_sold_than_can_be_delivered(tmp_path: Path) -> None:
    (tmp_path / "serving").mkdir()
    with started(tmp_path / "serving") as server, prometheus(tmp_path, f"127.0.0.1:{server.port}") as client:
        eventually(lambda: _is_scraped(client))
        assert "HoldfastOversold" not in firing(client)
        store = store_of(server)
        store.open(total_units=2, payment="external", oversell_policy="fulfil_first")
        held = store.buy()["reservation_id"]
        assert server.client.post(f"/v1/reservations/{held}/confirm").status_code == 200
        answer = server.client.post(f"/v1/ops/sales/{store.sale_id}/compensate", json={"deliverable_units": 0})
        assert body_of(answer)["sale_id"] == store.sale_id
        eventually(lambda: "HoldfastOversold" in firing(client))


def _is_scraped(client: httpx.Client) -> bool:
    try:
        answer = client.get("/api/v1/query", params={"query": "holdfast_oversold_units"})
        return bool(answer.json()["data"]["result"])
    except (httpx.TransportError, ValueError, KeyError):
        return False
