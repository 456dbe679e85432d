"""The function library: assembled from `lua/`, loaded, and checked.

The library and all of its functions carry a version in their names, so that several versions can be loaded and no
process calls those of another. A released text does not change: another text is another version. That does not make
versions compatible: v1 and v2 lay out pools differently and must not run side by side (docs/REDIS.md).

A library that is missing (FUNCTION FLUSH, an empty restart, a promoted replica) or has another text under our name is
loaded again. Nothing was executed before that, so the call that found it missing can be sent again.
"""

from pathlib import Path

from holdfast.domain.stock.limits import DUE_RETURNED_MAX
from holdfast.domain.stock.pool_time import CLOCK_SKEW_MS
from holdfast.gate.redis.link.port import RedisLink

NAME = "holdfast_v2"

# In order of dependency.
_FILES = (
    "library",
    "clock",
    "pool",
    "heap",
    "batch",
    "reserve",
    "extend",
    "move",
    "expire",
    "stock",
    "transfer",
    "write",
    "apply",
    "view",
    "audit",
    "trim",
    "sweep",
    "rebuild",
    "beat",
)


def source() -> str:
    """The text of the library."""
    directory = Path(__file__).parent / "lua"
    constants = f"local DUE_RETURNED_MAX, CLOCK_SKEW_MS = {DUE_RETURNED_MAX}, {CLOCK_SKEW_MS}"
    return "\n".join([f"#!lua name={NAME}", constants, *[(directory / f"{name}.lua").read_text() for name in _FILES]])


async def ensure_loaded(link: RedisLink, text: str) -> None:
    """Every primary has this library, and exactly this text of it."""
    listed = await link.call_everywhere(["FUNCTION", "LIST", "LIBRARYNAME", NAME, "WITHCODE"])
    if not all(text.encode() in _texts(replies[0]) for replies in listed):
        await link.call_everywhere(["FUNCTION", "LOAD", "REPLACE", text])


def _texts(libraries: list[list[object]]) -> list[object]:
    """The code in a reply to FUNCTION LIST, which is a flat list of names and values."""
    return [library[library.index(b"library_code") + 1] for library in libraries]
