"""How many places in line one address may have.

Counted in this process, from what the room tells it: a guard against one machine that joins ten thousand times, and no
more exact than that. Behind carriers and campuses there are thousands of people at one address, so the limit is wide,
and can be switched off.
"""

from holdfast.http.client_address import ClientAddresses
from holdfast.http.problems import Problem
from holdfast.http.requests import Request

COUNTED_MAX = 200_000


class Places:
    def __init__(self, addresses: ClientAddresses, per_address: int) -> None:
        """0: as many as they like."""
        self._addresses = addresses
        self._per_address = per_address
        self._taken: dict[tuple[str, str], int] = {}

    def check(self, sale_id: str, request: Request) -> None:
        address = self._addresses.limited(request) if self._per_address else None
        if address is not None and self._taken.get((sale_id, address), 0) >= self._per_address:
            raise too_many_places()

    def taken(self, sale_id: str, request: Request) -> None:
        """A buyer got a new place."""
        address = self._addresses.limited(request) if self._per_address else None
        if address is None:
            return
        if len(self._taken) >= COUNTED_MAX:
            for oldest in list(self._taken)[: COUNTED_MAX // 2]:
                del self._taken[oldest]
        self._taken[sale_id, address] = self._taken.get((sale_id, address), 0) + 1

    def left(self, sale_id: str, request: Request) -> None:
        address = self._addresses.limited(request) if self._per_address else None
        if address is not None and self._taken.get((sale_id, address), 0) > 0:
            self._taken[sale_id, address] -= 1


def too_many_places() -> Problem:
    return Problem(429, "too_many_places", "Too many places", "This address has as many places in line as it may have.")
