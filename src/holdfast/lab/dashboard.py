"""The Grafana dashboard, generated from the metric table: an overview, then a panel for every metric."""

import json
from typing import Any

from holdfast.lab.metric_table import Known, known_metrics

WIDTH, HEIGHT = 24, 8
_SOURCE = {"type": "prometheus", "uid": "${source}"}
# The row of a metric, by its longest matching prefix.
_ROWS = {
    "holdfast_http": "HTTP",
    "holdfast_sale": "Sales",
    "holdfast_room": "Waiting rooms",
    "holdfast_pool": "Pools",
    "holdfast_lag": "Lag",
    "holdfast_webhook": "Webhooks",
    "holdfast_settle": "Settlement",
    "holdfast_stream": "Streams",
    "holdfast_": "Server",
}
# When several processes report a gauge, its panel shows the maximum, which is usually the worst value. For these
# metrics the minimum is the worst.
_LEAST = ("holdfast_check_passes", "holdfast_redis_memory_headroom_ratio", "holdfast_replica_fit")
# Gauges that each process has separately, so panels show the sum.
_ADDED_UP = (
    "holdfast_concurrency_limit", "holdfast_fronts", "holdfast_requests_in_flight", "holdfast_waiting_commands",
)  # fmt: skip
_OVERVIEW = (
    ("Oversold units", "max(holdfast_oversold_units)", "short", 1),
    ("Pools that drift", "max(holdfast_drifting_pools)", "short", 1),
    ("Checks that fail", "count(holdfast_check_passes == 0) or vector(0)", "short", 1),
    ("Items that need a person", "sum(max by (kind) (holdfast_parked))", "short", 1),
    ("Checkout failures", "holdfast:checkout_failures:ratio_rate5m", "percentunit", 0.0001),
    ("Checkout p99", "holdfast:checkout_seconds:p99_rate5m", "s", 0.5),
)


def dashboard() -> str:
    panels: list[dict[str, Any]] = []
    top = _add_row(panels, "Overview", 0)
    each = WIDTH // len(_OVERVIEW)
    for number, (title, expression, unit, limit) in enumerate(_OVERVIEW):
        panels.append(_stat(title, expression, unit, limit, {"x": number * each, "y": top, "w": each, "h": 4}))
    top += 4
    for title in dict.fromkeys(_ROWS.values()):
        wanted = [one for one in known_metrics() if _row_of(one.name) == title]
        top = _add_row(panels, title, top)
        for number, one in enumerate(wanted):
            place = {"x": number % 3 * 8, "y": top + number // 3 * HEIGHT, "w": 8, "h": HEIGHT}
            panels.append(_graph(one, place))
        top += -(-len(wanted) // 3) * HEIGHT
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return json.dumps(_board(panels), indent=1) + "\n"


def _row_of(name: str) -> str:
    return _ROWS[max((prefix for prefix in _ROWS if name.startswith(prefix)), key=len)]


def _add_row(panels: list[dict[str, Any]], title: str, top: int) -> int:
    place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
    panels.append({"type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": []})
    return top + 1


def _stat(title: str, expression: str, unit: str, limit: float, place: dict[str, int]) -> dict[str, Any]:
    steps = [{"color": "green", "value": None}, {"color": "red", "value": limit}]
    return {
        "type": "stat",
        "title": title,
        "gridPos": place,
        "datasource": _SOURCE,
        "targets": [{"refId": "A", "expr": expression, "datasource": _SOURCE}],
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"colorMode": "background", "reduceOptions": {"calcs": ["lastNotNull"]}},
    }


def _graph(one: Known, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(65 + number), "expr": expression, "legendFormat": legend, "datasource": _SOURCE}
        for number, (expression, legend) in enumerate(_expressions(one))
    ]
    return {
        "type": "timeseries",
        "title": _title(one.name),
        "description": one.help,
        "gridPos": place,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": _unit(one)}, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list", "placement": "bottom"}},
    }


def _title(name: str) -> str:
    words = name.removeprefix("holdfast_").split("_")
    first = "HTTP" if words[0] == "http" else words[0].capitalize()
    return " ".join([first, *words[1:]])


def _expressions(one: Known) -> list[tuple[str, str]]:
    by = f" by ({', '.join(one.labels)})" if one.labels else ""
    legend = " ".join(f"{{{{{label}}}}}" for label in one.labels) or one.kind
    if one.kind == "counter":
        return [(f"sum{by} (rate({one.name}_total[$__rate_interval]))", legend)]
    if one.kind == "histogram":
        labels = ", ".join(("le", *one.labels[:1]))
        inner = f"sum by ({labels}) (rate({one.name}_bucket[$__rate_interval]))"
        first = " ".join(f"{{{{{label}}}}}" for label in one.labels[:1])
        return [
            (f"histogram_quantile({part}, {inner})", f"p{round(part * 100)} {first}".strip()) for part in (0.5, 0.99)
        ]
    combined = f"{_combining(one.name)}{by} ({one.name})"
    # Grafana expects Unix times in milliseconds.
    return [(f"{combined} * 1000" if _is_time(one) else combined, legend)]


def _combining(name: str) -> str:
    if name in _LEAST:
        return "min"
    return "sum" if name in _ADDED_UP else "max"


def _is_time(one: Known) -> bool:
    return one.name.endswith("_timestamp_seconds")


def _unit(one: Known) -> str:
    if _is_time(one):
        return "dateTimeFromNow"
    if one.name.endswith("_seconds"):
        return "s"
    if one.name.endswith("_ratio"):
        return "percentunit"
    return "ops" if one.kind == "counter" else "short"


def _board(panels: list[dict[str, Any]]) -> dict[str, Any]:
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    return {
        "uid": "holdfast",
        "title": "Holdfast",
        "tags": ["holdfast"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "15s",
        "templating": {"list": [source]},
        "panels": panels,
    }
