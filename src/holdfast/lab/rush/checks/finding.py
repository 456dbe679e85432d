"""The result of a check."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

EXAMPLES_MAX = 5


class Finding(Struct, frozen=True):
    name: str
    means: str
    looked_at: int
    count: int
    examples: list[str]

    @property
    def ok(self) -> bool:
        return self.count == 0

    def body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.ok,
            "count": self.count,
            "examples": self.examples,
            "looked_at": self.looked_at,
            "means": self.means,
        }


def finding(name: str, means: str, looked_at: int, found: Iterable[str]) -> Finding:
    examples = list(found)
    return Finding(name, means, looked_at, len(examples), examples[:EXAMPLES_MAX])
