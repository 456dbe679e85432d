"""Shows on stderr which figure is being measured and the estimated time left."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.status import Status


class Progress:
    """`planned_s` is the sum of all announced steps; the time between steps is estimated from the progress so far."""

    def __init__(self, planned_s: float) -> None:
        self._planned_s = planned_s
        self._done_s = 0.0
        self._started: float | None = None
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._step_s, self._step_started = 0.0, monotonic()

    @contextmanager
    def shown(self) -> Iterator["Progress"]:
        # The spinner redraws from a thread; four times a second is too rare to affect a measurement.
        with self._console.status("starting", refresh_per_second=4) as status:
            self._status = status if self._console.is_terminal else None
            yield self

    @contextmanager
    def step(self, name: str, seconds: float = 0.0) -> Iterator[None]:
        if seconds and self._started is None:
            self._started = monotonic()
        self._step_s, self._step_started = seconds, monotonic()
        self.tell(name)
        yield
        self._done_s += seconds
        self._step_s = 0.0

    def tell(self, what: str) -> None:
        line = f"{what}, about {self._left_s()} s left"
        if self._status is None:
            self._console.print(line)
        else:
            self._status.update(line)

    def _left_s(self) -> int:
        pace = (self._step_started - self._started) / self._done_s if self._started and self._done_s else 1.0
        in_step = max(0.0, self._step_s * pace - (monotonic() - self._step_started))
        return math.ceil(max(0.0, self._planned_s - self._done_s - self._step_s) * pace + in_step)
