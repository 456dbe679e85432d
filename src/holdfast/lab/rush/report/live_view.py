"""Progress of a rush: a live table on a terminal, plain lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.lab.rush.buyers.actions import Step
from holdfast.lab.rush.buyers.tally import BIN_S
from holdfast.lab.rush.run import RushProgress

LINE_EVERY_S = 5.0
# Rates are averaged over about 1.5 s: processes report their counts twice a second.
_RECENT_BINS = 15
_SHOWN = (Step.JOIN, Step.ADMISSION, Step.PURCHASE, Step.CONFIRM, Step.RESERVATION)
_ENDINGS = 8


class View:
    def __init__(self, *, is_quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._is_quiet = is_quiet
        self._live: Live | None = None
        self._said_at = float("-inf")
        self._phase = ""

    @contextmanager
    def shown(self) -> Iterator["View"]:
        if self._is_quiet or not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            self._live = live
            yield self
            self._live = None

    def say(self, text: str) -> None:
        if not self._is_quiet:
            self._console.print(text, markup=False)

    def show(self, progress: RushProgress) -> None:
        if self._live is not None:
            self._live.update(table_of(progress))
        elif not self._is_quiet and (progress.phase != self._phase or monotonic() - self._said_at >= LINE_EVERY_S):
            self._phase, self._said_at = progress.phase, monotonic()
            self.say(line_of(progress))


def recent(bins: dict[int, int], until_bin: int) -> float:
    """The recent rate per second, without the bin that is still filling."""
    return sum(bins.get(bin_, 0) for bin_ in range(until_bin - _RECENT_BINS, until_bin)) / (_RECENT_BINS * BIN_S)


def line_of(progress: RushProgress) -> str:
    if not progress.starts_at:
        return progress.phase
    tally, now_bin = progress.workers.tally, int(progress.elapsed_s / BIN_S)
    purchases = tally.histogram(Step.PURCHASE)
    parts = [
        f"{progress.elapsed_s:6.1f} s  {progress.phase}",
        f"{tally.total('ended'):,} of {progress.options.users:,} done",
        f"{recent(tally.series.get('attempts', {}), now_bin):,.0f} attempts/s",
        f"{recent(tally.series.get('requests', {}), now_bin):,.0f} requests/s",
        f"p50 {purchases.quantile_ms(0.5):,.0f} ms, p99 {purchases.quantile_ms(0.99):,.0f} ms",
        _stock(progress),
    ]
    return "; ".join(part for part in parts if part)


def _stock(progress: RushProgress) -> str:
    if progress.monitor is None or not progress.monitor.samples:
        return ""
    last = progress.monitor.samples[-1]
    line = f", {last.waiting:,} in line" if last.serving else ""
    return f"{last.available:,} available, {last.held:,} held, {last.sold:,} sold{line}"


def table_of(progress: RushProgress) -> Group:
    tally, users = progress.workers.tally, progress.options.users
    done, now_bin = tally.total("ended"), int(progress.elapsed_s / BIN_S)
    head = Text.assemble(
        (f" {progress.options.scenario.name} ", "bold reverse"), f"  {progress.phase}, {progress.elapsed_s:.0f} s"
    )
    facts = Table.grid(padding=(0, 2))
    facts.add_row(
        "buyers", f"{tally.total('arrived'):,} arrived, {done:,} done, of {users:,}", ProgressBar(users, done, 30)
    )
    facts.add_row("stock", _stock(progress), _sold_bar(progress))
    attempts = recent(tally.series.get("attempts", {}), now_bin)
    requests = recent(tally.series.get("requests", {}), now_bin)
    waiting = f"{progress.workers.waiting:,} waiting for a connection"
    facts.add_row("rates", f"{attempts:,.0f} attempts/s, {requests:,.0f} requests/s", waiting)
    return Group(head, facts, _latencies(progress), _endings(progress))


def _sold_bar(progress: RushProgress) -> ProgressBar | str:
    if progress.monitor is None or not progress.monitor.samples:
        return ""
    last = progress.monitor.samples[-1]
    return ProgressBar(max(last.total_units, 1), last.sold, 30)


def _latencies(progress: RushProgress) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("latency, ms", "p50", "p90", "p99", "max", "requests"):
        table.add_column(name, justify="left" if name.startswith("latency") else "right")
    for step in _SHOWN:
        histogram = progress.workers.tally.histogram(step)
        if histogram.total:
            figures = histogram.percentiles_ms()
            table.add_row(
                step, *(f"{figures[name]:,.1f}" for name in ("p50", "p90", "p99", "max")), f"{histogram.total:,}"
            )
    return table


def _endings(progress: RushProgress) -> Text:
    endings = list(progress.workers.tally.totals("ending ").items())[:_ENDINGS]
    refusals = list(progress.workers.tally.totals("refused ").items())[:_ENDINGS]
    lines = [
        "outcomes " + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in endings),
        "refused  " + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in refusals),
    ]
    return Text("\n".join(lines))
