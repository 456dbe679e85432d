"""Names for calls, so that Redis keeps one reply per caller instead of one per call.

A caller has one call in flight at a pool, and numbers its calls in ascending order. So a retry finds the reply to its
first attempt, and a call that is overtaken by a later one is not executed. A process has as many callers as calls in
flight at a pool.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from uuid_utils import uuid4

from holdfast.gate.redis.encoding import CallId


class Callers:
    def __init__(self) -> None:
        self._process = uuid4().hex
        self._numbers = count(1)
        self._busy: dict[str, set[int]] = defaultdict(set)

    @contextmanager
    def next_call(self, sku_id: str) -> Iterator[CallId]:
        busy = self._busy[sku_id]
        place = next(place for place in count() if place not in busy)
        busy.add(place)
        try:
            yield CallId(f"{self._process}/{place}", next(self._numbers))
        finally:
            busy.discard(place)
            if not busy:
                self._busy.pop(sku_id, None)
