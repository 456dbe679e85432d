"""What a person sees while the crowd is at it: a table that is drawn again where there is a terminal, else lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.rush.rehearsal import Scene
from holdfast.rush.tally import BIN_S
from holdfast.rush.wishes import Step

LINE_EVERY_S = 5.0
# Rates are those of about the last second and a half: processes tell what they counted twice a second.
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

    def show(self, scene: Scene) -> None:
        if self._live is not None:
            self._live.update(table_of(scene))
        elif not self._is_quiet and (scene.phase != self._phase or monotonic() - self._said_at >= LINE_EVERY_S):
            self._phase, self._said_at = scene.phase, monotonic()
            self.say(line_of(scene))


def recent(bins: dict[int, int], until_bin: int) -> float:
    """Per second, of late; the bin that is being filled does not count."""
    return sum(bins.get(bin_, 0) for bin_ in range(until_bin - _RECENT_BINS, until_bin)) / (_RECENT_BINS * BIN_S)


def line_of(scene: Scene) -> str:
    if not scene.starts_at:
        return scene.phase
    tally, now_bin = scene.conductor.tally, int(scene.elapsed_s / BIN_S)
    purchases = tally.histogram(Step.PURCHASE)
    parts = [
        f"{scene.elapsed_s:6.1f} s  {scene.phase}",
        f"{tally.total('ended'):,} of {scene.options.users:,} gone",
        f"{recent(tally.series.get('attempts', {}), now_bin):,.0f} attempts/s",
        f"{recent(tally.series.get('requests', {}), now_bin):,.0f} requests/s",
        f"p50 {purchases.quantile_ms(0.5):,.0f} ms, p99 {purchases.quantile_ms(0.99):,.0f} ms",
        _stock(scene),
    ]
    return "; ".join(part for part in parts if part)


def _stock(scene: Scene) -> str:
    if scene.watch is None or not scene.watch.samples:
        return ""
    last = scene.watch.samples[-1]
    line = f", {last.waiting:,} in line" if last.serving else ""
    return f"{last.available:,} available, {last.held:,} held, {last.sold:,} sold{line}"


def table_of(scene: Scene) -> Group:
    tally, users = scene.conductor.tally, scene.options.users
    gone, now_bin = tally.total("ended"), int(scene.elapsed_s / BIN_S)
    head = Text.assemble(
        (f" {scene.options.scenario.name} ", "bold reverse"), f"  {scene.phase}, {scene.elapsed_s:.0f} s"
    )
    facts = Table.grid(padding=(0, 2))
    facts.add_row(
        "crowd", f"{tally.total('arrived'):,} came, {gone:,} gone, of {users:,}", ProgressBar(users, gone, 30)
    )
    facts.add_row("stock", _stock(scene), _sold_bar(scene))
    attempts = recent(tally.series.get("attempts", {}), now_bin)
    requests = recent(tally.series.get("requests", {}), now_bin)
    waiting = f"{scene.conductor.in_line:,} wait for a connection"
    facts.add_row("rates", f"{attempts:,.0f} attempts/s, {requests:,.0f} requests/s", waiting)
    return Group(head, facts, _latencies(scene), _endings(scene))


def _sold_bar(scene: Scene) -> ProgressBar | str:
    if scene.watch is None or not scene.watch.samples:
        return ""
    last = scene.watch.samples[-1]
    return ProgressBar(max(last.total_units, 1), last.sold, 30)


def _latencies(scene: Scene) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("latency, ms", "p50", "p90", "p99", "max", "requests"):
        table.add_column(name, justify="left" if name.startswith("latency") else "right")
    for step in _SHOWN:
        histogram = scene.conductor.tally.histogram(step)
        if histogram.total:
            told = histogram.told()
            table.add_row(
                step, *(f"{told[name]:,.1f}" for name in ("p50", "p90", "p99", "max")), f"{histogram.total:,}"
            )
    return table


def _endings(scene: Scene) -> Text:
    endings = list(scene.conductor.tally.names("ending ").items())[:_ENDINGS]
    refusals = list(scene.conductor.tally.names("refused ").items())[:_ENDINGS]
    lines = [
        "ended    " + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in endings),
        "refused  " + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in refusals),
    ]
    return Text("\n".join(lines))
