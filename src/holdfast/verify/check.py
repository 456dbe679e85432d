"""A check is a question to which a healthy ledger has no answer: it selects counter-examples.

Each is one statement over whole tables, so that the engine does the work and millions of rows are no matter; none reads
the rows into Python but the first few it finds.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Select, Table, func, select

# Enough to see what the matter is; the count says how much of it there is.
EXAMPLES_MAX = 5


class Level(StrEnum):
    # One is enough to refute.
    FAILURE = "failure"
    # Work that is under way: it will end well or become a failure, and is counted meanwhile.
    OPEN = "open"
    # Worth knowing, and legal.
    NOTE = "note"


class Check(Struct, frozen=True, eq=False):
    """`means` is what is so if nothing is found. The first column selected names the thing found."""

    name: str
    means: str
    about: Table
    counter_examples: Select[Any]
    level: Level = Level.FAILURE


class Computed(Struct, frozen=True, eq=False):
    """What no statement can find, because it takes hashes: gives counter-examples one by one."""

    name: str
    means: str
    about: Table
    counter_examples: Callable[[Connection], Iterator[dict[str, Any]]]
    level: Level = Level.FAILURE


class Finding(Struct, frozen=True):
    name: str
    means: str
    level: Level
    looked_at: int
    count: int
    examples: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        return self.level is not Level.FAILURE or self.count == 0

    def body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.ok,
            "count": self.count,
            "examples": self.examples,
            "level": self.level.value,
            "looked_at": self.looked_at,
            "means": self.means,
        }


class Ledger:
    """One snapshot that checks are asked of. Tables are counted once, however many checks are about them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sizes: dict[str, int] = {}

    def size_of(self, table: Table) -> int:
        if table.name not in self._sizes:
            counted = self.connection.execute(select(func.count()).select_from(table))
            self._sizes[table.name] = int(counted.scalar_one())
        return self._sizes[table.name]

    def ask(self, check: Check | Computed) -> Finding:
        if isinstance(check, Computed):
            examples = list(check.counter_examples(self.connection))
            return self._finding(check, len(examples), examples[:EXAMPLES_MAX])
        found = check.counter_examples.subquery("found")
        counted = func.count().over().label("counted")
        query = select(*found.c, counted).order_by(*list(found.c)[:1]).limit(EXAMPLES_MAX)
        rows = self.connection.execute(query).mappings().all()
        examples = [{name: _plain(value) for name, value in row.items() if name != "counted"} for row in rows]
        count = int(rows[0]["counted"]) if rows else 0
        return self._finding(check, count, examples)

    def _finding(self, check: Check | Computed, count: int, examples: list[dict[str, Any]]) -> Finding:
        return Finding(check.name, check.means, check.level, self.size_of(check.about), count, examples)


def _plain(value: Any) -> Any:
    """PostgreSQL's sums are decimals."""
    return int(value) if isinstance(value, Decimal) else value
