"""Tables and numbers in Markdown."""

from collections.abc import Iterable, Sequence
from textwrap import fill

WIDTH = 120
TIMES = "\N{MULTIPLICATION SIGN}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def paragraph(*words: str) -> str:
    return fill(" ".join(words), WIDTH, break_long_words=False, break_on_hyphens=False)


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")


def number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def milliseconds(value: float | None) -> str:
    """With the significant digits only."""
    return (
        "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
    )


def times(value: float | None) -> str:
    """With the significant digits only."""
    return "" if value is None else f"{value:.{0 if value >= 10 else 1 if value >= 0.95 else 2}f} {TIMES}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"
