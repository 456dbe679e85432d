"""Finds the smallest set of faults with which a run still fails in the same way."""

from collections.abc import Callable, Sequence

from holdfast.lab.simulate.faults import Fault
from holdfast.lab.simulate.run import Report

# A failure with a dozen faults shrinks within this many runs; one that needs more is shown as far as it got.
RUNS_MAX = 60

Rerun = Callable[[Sequence[Fault]], Report]


def shrink(failed: Report, rerun: Rerun) -> Report:
    """Leaves out halves, quarters, then single faults, as long as the first invariant is still violated."""
    wanted, best, runs = failed.violations[0].invariant, failed, 0
    size = max(1, len(failed.faults) // 2)
    while runs < RUNS_MAX and best.faults:
        found = None
        for start in range(0, len(best.faults), size):
            report = rerun([*best.faults[:start], *best.faults[start + size :]])
            runs += 1
            if any(violation.invariant == wanted for violation in report.violations):
                found = report
                break
        if found is not None:
            best = found
        elif size == 1:
            break
        size = max(1, min(size, len(best.faults)) // 2) if found is None else size
    return best
