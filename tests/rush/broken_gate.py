"""`holdfast` with a gate that grants every unit twice without counting it: the rush has to detect that.

Every second grant and everything after it are left out of the pool's counters, which still add up, so that the
database's constraints do not notice.
"""

from itertools import count
from typing import Any

from holdfast.cli import main
from holdfast.domain.stock import rulebook
from holdfast.domain.stock.reservation import Status

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
