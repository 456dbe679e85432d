"""`holdfast` with a gate that grants every unit twice, and says that it did not: for the rush to find out.

Every second grant is left out of the pool's counters, and so is whatever becomes of it; they add up all the same, so
that the database's last wall lets it pass.
"""

from itertools import count
from typing import Any

from holdfast.cli import main
from holdfast.domain import rulebook
from holdfast.domain.reservation import Status

_numbers = count()
_uncounted: set[str] = set()
_grant, _end = rulebook._Round._grant, rulebook._Round._end


def grant_twice(self: Any, command: Any, quantity: int) -> Any:
    if next(_numbers) % 2:
        _uncounted.add(command.reservation_id)
    held, free = self._held, self._free
    verdict = _grant(self, command, quantity)
    if command.reservation_id in _uncounted:
        self._held, self._free = held, free
    return verdict


def end_uncounted(self: Any, reservation: Any, status: Status) -> Any:
    counters = self._held, self._sold, self._free
    moved = _end(self, reservation, status)
    if reservation.reservation_id in _uncounted:
        self._held, self._sold, self._free = counters
    return moved


rulebook._Round._grant = grant_twice  # type: ignore[method-assign]
rulebook._Round._end = end_uncounted  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
