"""How many places in the queue one address may have.

Counted in this process only: a rough guard against one machine that joins ten thousand times. Carriers and campuses
have thousands of people at one address, so the limit is high, and can be turned off.

A place counts for the address that took it until it is left, no matter which client leaves it or how often.
"""

from holdfast.http.contract import problems
from holdfast.http.contract.message import ClientConnection
from holdfast.http.contract.problem import Problem
from holdfast.runtime.client_address import ClientAddresses

COUNTED_MAX = 200_000


class Places:
    def __init__(self, addresses: ClientAddresses, per_address: int) -> None:
        """0: no limit."""
        self._addresses = addresses
        self._per_address = per_address
        self._taken: dict[tuple[str, str], int] = {}
        self._taker: dict[str, tuple[str, str]] = {}

    def check(self, sale_id: str, client: ClientConnection) -> None:
        address = self._address(client)
        if address is not None and self._taken.get((sale_id, address), 0) >= self._per_address:
            raise Problem(problems.TOO_MANY_PLACES)

    def taken(self, sale_id: str, ticket_id: str, client: ClientConnection) -> None:
        """A buyer got a new place."""
        address = self._address(client)
        if address is None:
            return
        if len(self._taker) >= COUNTED_MAX:
            self.left(next(iter(self._taker)))
        self._taker[ticket_id] = (sale_id, address)
        self._taken[sale_id, address] = self._taken.get((sale_id, address), 0) + 1

    def left(self, ticket_id: str) -> None:
        """Once for each place; a place taken elsewhere, or left before, is not counted here."""
        taker = self._taker.pop(ticket_id, None)
        if taker is None:
            return
        self._taken[taker] -= 1
        if not self._taken[taker]:
            del self._taken[taker]

    def _address(self, client: ClientConnection) -> str | None:
        return self._addresses.limited(client) if self._per_address else None
