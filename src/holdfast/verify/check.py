"""A check selects counter-examples to an invariant. On a healthy ledger it finds none.

Each check is one statement over whole tables, so that the database does the work even for millions of rows. Only the
first few counter-examples are read into Python.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Select, Table, func, select

# Enough to see the problem. The count has the total number.
EXAMPLES_MAX = 5


class Level(StrEnum):
    # A single counter-example fails the verification.
    FAILURE = "failure"
    # Work in progress: it is counted, and will complete or become a failure.
    OPEN = "open"
    # Legal, but worth knowing.
    NOTE = "note"


class Check(Struct, frozen=True, eq=False):
    """`means` is the invariant that holds if nothing is found. The first column identifies a counter-example."""

    name: str
    means: str
    about: Table
    counter_examples: Select[Any]
    level: Level = Level.FAILURE


class Computed(Struct, frozen=True, eq=False):
    """A check that SQL cannot express, because it computes hashes. Yields counter-examples one by one."""

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
    """One snapshot to run checks on. Each table is counted once, however many checks use it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sizes: dict[str, int] = {}

    def size_of(self, table: Table) -> int:
        if table.name not in self._sizes:
            counted = self.connection.execute(select(func.count()).select_from(table))
            self._sizes[table.name] = int(counted.scalar_one())
        return self._sizes[table.name]

    def run(self, check: Check | Computed) -> Finding:
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
