"""Small sales whose outcome can be calculated by hand."""

from typing import Any

from holdfast.lab.plan.capacity import Capacity
from holdfast.lab.plan.facts import Facts, Payment
from holdfast.lab.plan.figures import ENGINES, measured
from holdfast.lab.plan.outcome import Outcome, outcome_of
from holdfast.lab.plan.simulation_runs import simulate

MEASURED = {engine: measured(engine) for engine in ENGINES}


def plain(**changes: Any) -> Facts:
    """Everyone arrives at once, shows up when called, and buys and pays for one unit at once."""
    simple: dict[str, Any] = {
        "users": 10_000,
        "units": 1_000,
        "over_s": 0.0,
        "rate_per_second": 100.0,
        "pass_s": 20.0,
        "no_show": 0.0,
        "conversion": 1.0,
        "browse_s": 0.0,
        "is_instant": True,
        "abandon": 0.0,
        "declines": 0.0,
        "payment": Payment.WALLET,
        "provider_s": 0.0,
    }
    return Facts(**simple | changes)


def outcome(facts: Facts, capacity: Capacity | None = None) -> Outcome:
    figures = MEASURED[facts.engine]
    return outcome_of(facts, simulate(facts, figures, capacity or Capacity()))
