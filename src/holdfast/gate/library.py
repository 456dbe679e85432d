"""The function library: put together from `gate/lua/`, loaded, and checked.

The names of the functions carry a version, so that an old and a new process can share one Redis during an upgrade. A
library that is missing (FUNCTION FLUSH, an empty restart, a replica that was promoted) or has another text under our
name is loaded anew; nothing was executed before, so the call that found out may simply be sent again.
"""

from pathlib import Path

from holdfast.gate.link.port import RedisLink

NAME = "holdfast_v1"

# In the order in which they need one another.
_FILES = (
    "library",
    "clock",
    "pool",
    "heap",
    "round",
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
    "rebuild",
)


def source(clock: str | None = None) -> str:
    """The text of the library. Another `clock` is for tests, which need to set the time."""
    directory = Path(__file__).parent / "lua"
    parts = {name: (directory / f"{name}.lua").read_text() for name in _FILES}
    if clock is not None:
        parts["clock"] = clock
    return f"#!lua name={NAME}\n" + "\n".join(parts.values())


async def ensure_loaded(link: RedisLink, text: str) -> None:
    """Every primary has this library, and exactly this text of it."""
    listed = await link.call_everywhere(["FUNCTION", "LIST", "LIBRARYNAME", NAME, "WITHCODE"])
    if not all(text.encode() in _texts(replies[0]) for replies in listed):
        await link.call_everywhere(["FUNCTION", "LOAD", "REPLACE", text])


def _texts(libraries: list[list[object]]) -> list[object]:
    """The code in what FUNCTION LIST gave: names and values in turn, or pairs of them."""
    return [library[library.index(b"library_code") + 1] for library in libraries]
