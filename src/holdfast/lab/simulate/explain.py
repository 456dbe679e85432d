"""Explains a failed run: the violation, the fewest faults that cause it, and the relevant part of the trace."""

import re

from holdfast.lab.simulate.run import Report

LINES_MAX = 40
_CONCERNED = re.compile(r"rsv_[0-9a-f]{32}|pay_[0-9a-f]{32}|buyer-\d+|key-buyer-\d+")


def explain(report: Report, engine: str) -> str:
    violations = [f"  {violation}" for violation in report.violations[:5]]
    faults = [f"  {fault}" for fault in report.faults] or ["  none: it fails without any"]
    return "\n".join(
        [
            f"Seed {report.seed} fails:",
            *violations,
            "Faults that it needs:",
            *faults,
            "What happened:",
            *[f"  {line}" for line in _story(report)],
            f"Replay: holdfast simulate --seed {report.seed} --engine {engine}",
        ]
    )


def _story(report: Report) -> list[str]:
    """The trace lines about the first violation. A reservation and its payment share the digits of their IDs."""
    names = _CONCERNED.findall(report.violations[0].detail)
    digits = {name.split("_")[-1] for name in names}
    about = [
        line
        for line in report.trace.lines
        if "FAULT" in line or "VIOLATION" in line or any(one in line for one in digits)
    ]
    return about if len(about) <= LINES_MAX else [*about[: LINES_MAX // 2], "…", *about[-LINES_MAX // 2 :]]
