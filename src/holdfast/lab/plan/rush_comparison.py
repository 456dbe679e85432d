"""Compares a plan with a finished rush: the same sale, forecast and measured.

A rush runs on one machine: a server process, a worker in Redis mode, and the simulated buyers. So the figures must come
from that machine, and must account for the CPU time that the buyers take from the server.
"""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.errors import SettingsError
from holdfast.lab.plan.facts import Facts, facts_of
from holdfast.lab.plan.figures import Figures
from holdfast.lab.plan.plan import Existing, Plan, make_plan
from holdfast.lab.scenarios.scenario import Scenario

# Refusals that only bots get. The plan does not include bots.
_BOTS_TOLD = ("admission_required", "unauthorized", "no_answer")
WITHIN = 0.2
# On two cores, the share of a core left to a busy server process by busy simulated buyers; the second value is for a
# server and a worker.
_LEFT, _LEFT_OF_TWO = 0.7, 0.6


class _Measured(Struct):
    users: int
    units: int
    sold: int | None
    sold_out_after_s: float | None
    attempts: int
    fifty_percent_after_s: float | None = None
    ninety_percent_after_s: float | None = None
    ninety_nine_percent_after_s: float | None = None
    longest_line: int | None = None
    purchases_per_second_peak: float | None = None
    refusals: dict[str, int] = {}
    wait_s: dict[str, float] | None = None


class MeasuredRush(Struct):
    """The part of `holdfast rush --json` that is compared."""

    figures: _Measured
    engine: str | None
    scenario: Scenario


class Comparison(Struct, frozen=True):
    name: str
    unit: str
    predicted: float | None
    measured: float | None
    between: tuple[float, float] | None = None
    """The range of four in five runs, for figures that depend on chance."""

    @property
    def deviation(self) -> float | None:
        """The prediction's relative deviation from the measurement."""
        if not self.measured or self.predicted is None:
            return None
        return self.predicted / self.measured - 1

    @property
    def is_in_range(self) -> bool:
        if self.between is None or self.measured is None:
            return False
        return self.between[0] <= self.measured <= self.between[1]

    @property
    def is_within(self) -> bool | None:
        return None if self.deviation is None else abs(self.deviation) <= WITHIN or self.is_in_range

    def body(self) -> dict[str, Any]:
        deviation = None if self.deviation is None else round(self.deviation, 4)
        return asdict(self) | {"deviation": deviation, "is_in_range": self.is_in_range, "is_within": self.is_within}


def read_rush(path: Path) -> MeasuredRush:
    try:
        return msgspec.json.decode(path.read_bytes(), type=MeasuredRush)
    except OSError as exc:
        raise SettingsError(f"--check-against: {path} cannot be read: {exc.strerror}") from exc
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"--check-against: {path} is not what `holdfast rush --json` prints: {exc}") from exc


def rush_facts(rushed: MeasuredRush) -> Facts:
    if rushed.engine is None:
        raise SettingsError("--check-against: the rush was on a server that ran already: what it runs on is not known")
    return facts_of(rushed.scenario, rushed.figures.users, rushed.figures.units, rushed.engine)


def plan_rush(rushed: MeasuredRush, figures: Figures, headroom: float) -> Plan:
    """Plans with the deployment of a rush: one of each. Only Redis mode has a worker; otherwise the server settles
    orders."""
    is_redis = rushed.engine == "redis"
    site = Existing(
        edge=1, api=1, shards=1, postgres=1, workers=1 if is_redis else 0, left=_LEFT_OF_TWO if is_redis else _LEFT
    )
    return make_plan(rush_facts(rushed), figures, site, headroom)


def compare(rushed: MeasuredRush, plan: Plan) -> list[Comparison]:
    measured, outcome = rushed.figures, plan.outcome
    of_bots = sum(measured.refusals.get(name, 0) for name in _BOTS_TOLD)
    found = [
        Comparison("50_percent_after", "s", outcome.fifty_percent_after_s, measured.fifty_percent_after_s),
        Comparison("90_percent_after", "s", outcome.ninety_percent_after_s, measured.ninety_percent_after_s),
        Comparison(
            "99_percent_after",
            "s",
            outcome.ninety_nine_percent_after_s,
            measured.ninety_nine_percent_after_s,
            outcome.ninety_nine_percent_between_s,
        ),
        Comparison(
            "sold_out_after", "s", outcome.sold_out_after_s, measured.sold_out_after_s, outcome.sold_out_between_s
        ),
        Comparison("sold", "units", outcome.sold, measured.sold),
        Comparison("attempts", "requests", outcome.attempts, measured.attempts - of_bots),
        Comparison("purchases_at_most", "per s", outcome.busiest_second, measured.purchases_per_second_peak),
    ]
    if measured.wait_s is not None and outcome.admission_wait is not None:
        predicted = msgspec.to_builtins(outcome.admission_wait)
        found.append(Comparison("longest_line", "people", outcome.longest_line, measured.longest_line))
        found += [Comparison(f"wait_{p}", "s", predicted[p], measured.wait_s.get(p)) for p in ("p50", "p90")]
    return found
