"""`holdfast` with a gate that grants every unit twice, and says that it did not: for the rush to find out.

Every second grant is not counted, and what the pool row says is bent until the database's last wall lets it pass.
"""

from itertools import count
from typing import Any

from holdfast.cli import main
from holdfast.domain import rulebook
from holdfast.domain.pool import Pool

_numbers = count()
_grant, _pool = rulebook._Round._grant, rulebook._Round._pool


def grant_twice(self: Any, command: Any, quantity: int) -> Any:
    verdict = _grant(self, command, quantity)
    if next(_numbers) % 2:
        self._free += quantity
        self._held -= quantity
    return verdict


def lie(self: Any) -> Pool:
    held = min(max(self._held, 0), self._total)
    sold = min(max(self._sold, 0), self._total - held)
    self._held, self._sold = held, sold
    return _pool(self)


rulebook._Round._grant = grant_twice  # type: ignore[method-assign]
rulebook._Round._pool = lie  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
