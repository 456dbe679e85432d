"""Every metric, read from the code; the source of the reference page, the dashboard and the check of the alerts."""

from collections.abc import Iterator

from msgspec import Struct
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from holdfast.http.endpoints.ops.store_metrics import DESCRIBED
from holdfast.runtime import metrics


class Known(Struct, frozen=True):
    name: str
    kind: str
    help: str
    labels: tuple[str, ...]

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series in Prometheus."""
        if self.kind == "counter":
            return (f"{self.name}_total",)
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)


def known_metrics() -> list[Known]:
    return sorted({one.name: one for one in (*_counted(), *_read_at_scrape())}.values(), key=lambda one: one.name)


def _counted() -> Iterator[Known]:
    for value in vars(metrics).values():
        if isinstance(value, MetricWrapperBase):
            [family] = [one for one in REGISTRY.collect() if one.name == value._name]  # noqa: SLF001 - no public way
            yield Known(family.name, family.type, family.documentation, tuple(value._labelnames))  # noqa: SLF001 - as above


def _read_at_scrape() -> Iterator[Known]:
    for one in DESCRIBED:
        yield Known(one.name, "counter" if one.is_counter else "gauge", one.help, one.labels)


def metrics_page() -> str:
    """docs/METRICS.md."""
    rows = [
        f"| `{one.series[0] if one.kind == 'counter' else one.name}` | {one.kind} | "
        f"{', '.join(f'`{label}`' for label in one.labels)} | {one.help} |"
        for one in known_metrics()
    ]
    return "\n".join([_HEAD, *rows, ""])


_HEAD = """\
# Metrics

`GET /metrics` needs a service key with the scope `read` or `operate`: `holdfast keys create --name prometheus --scope
read`. Rules and alerts are in [deploy/prometheus/rules.yml](../deploy/prometheus/rules.yml), what to do about them in
[RUNBOOK.md](RUNBOOK.md), a Grafana dashboard in [deploy/grafana/holdfast.json](../deploy/grafana/holdfast.json). This
page and the dashboard are generated from the code: `make docs`.

Lag, drift, oversold units, Redis' memory and everything by sale are read from the stores at each scrape: they are
true also where no worker runs, and the same on every server, so alert on any of them and do not add them up. The
newest 100 sales that are not closed are shown, and at most 1,000 pools.

| metric | type | labels | meaning |
|---|---|---|---|"""
