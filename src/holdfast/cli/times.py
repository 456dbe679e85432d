"""Times as people read them. All are UTC; `--json` has them in full."""

from datetime import UTC, datetime

from holdfast.errors import SettingsError
from holdfast.http.times import millis


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


_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def since(text: str, now_ms: int) -> int:
    """A moment (`2026-05-01T10:00:00Z`), or how long ago (`90s`, `15m`, `2h`, `7d`)."""
    number, unit = text[:-1], text[-1:]
    if number.isdecimal() and unit in _UNITS_MS:
        return now_ms - int(number) * _UNITS_MS[unit]
    try:
        return millis(text)
    except (ValueError, OverflowError) as exc:
        raise SettingsError(f"{text!r} is no moment; use 15m, 2h, 7d or 2026-05-01T10:00:00Z") from exc
