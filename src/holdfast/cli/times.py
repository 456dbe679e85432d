"""Times formatted for people, in UTC; `--json` has full timestamps."""

from datetime import UTC, datetime

from holdfast.errors import SettingsError
from holdfast.runtime.times import millis


def clock_time(at_ms: int | None) -> str | None:
    """For times at most minutes away."""
    return None if at_ms is None else f"{_moment(at_ms):%H:%M:%SZ}"


def date(at_ms: int | None) -> str | None:
    return None if at_ms is None else f"{_moment(at_ms):%Y-%m-%d}"


def minute(at_ms: int | None) -> str | None:
    return None if at_ms is None else f"{_moment(at_ms):%Y-%m-%d %H:%M}"


def moment(at_ms: int | None) -> str | None:
    """To the millisecond, to show the order of events."""
    return None if at_ms is None else f"{_moment(at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}"


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC)


_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def since(text: str, now_ms: int) -> int:
    """A timestamp (`2026-05-01T10:00:00Z`) or a duration ago (`90s`, `15m`, `2h`, `7d`)."""
    number, unit = text[:-1], text[-1:]
    if number.isdecimal() and unit in _UNITS_MS:
        return now_ms - int(number) * _UNITS_MS[unit]
    try:
        return millis(text)
    except (ValueError, OverflowError) as exc:
        raise SettingsError(f"{text!r} is not a time; use 15m, 2h, 7d or 2026-05-01T10:00:00Z") from exc
