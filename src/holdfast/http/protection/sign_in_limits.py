"""How often a password may be wrong.

By account and address, so that a guesser does not shut out the operator; and by account from all addresses together,
with more to spend, so that many addresses do not guess much faster. The numbers belong to one process.
"""

from time import monotonic

from holdfast.http.contract import problems
from holdfast.http.contract.message import Request
from holdfast.http.contract.problem import Problem
from holdfast.http.protection.limits import Buckets
from holdfast.runtime.client_address import ClientAddresses
from holdfast.runtime.token_bucket import Policy

FROM_ONE = Policy("sign-ins", burst=5, every_ms=30_000)
FROM_ALL = Policy("sign-ins of an account", burst=100, every_ms=5_000)


class SignInLimits:
    def __init__(self, addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self._from_one, self._from_all = Buckets(FROM_ONE), Buckets(FROM_ALL)

    def check(self, request: Request, account: str) -> None:
        """Raises a `Problem` if it was wrong too often."""
        now, address = _now(), self._addresses.client_of(request.connection)[0]
        if self._from_one.is_empty((account, address), now) or self._from_all.is_empty(account, now):
            raise Problem(problems.RATE_LIMITED, "Too many wrong passwords. Retry in half a minute.")

    def count_wrong(self, request: Request, account: str) -> None:
        now, address = _now(), self._addresses.client_of(request.connection)[0]
        self._from_one.take((account, address), now)
        self._from_all.take(account, now)


def _now() -> int:
    return int(monotonic() * 1000)
