"""Times as people read them. All are UTC; `--json` has them in full."""

from datetime import UTC, datetime


def clock_time(at_ms: int | None) -> str | None:
    """For moments that are minutes away at most."""
    return None if at_ms is None else f"{_moment(at_ms):%H:%M:%SZ}"


def date(at_ms: int | None) -> str | None:
    return None if at_ms is None else f"{_moment(at_ms):%Y-%m-%d}"


def moment(at_ms: int | None) -> str | None:
    """To the millisecond, for what happened one after the other."""
    return None if at_ms is None else f"{_moment(at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}"


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC)
