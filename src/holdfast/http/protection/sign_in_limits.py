"""How often sign-ins may be tried.

By account and address, so that a guesser does not shut out the operator; by account from all addresses together, with
more to spend, so that many addresses do not guess much faster; and by address, whatever the accounts, because each try
costs a hash, for which others wait. The larger networks around an IPv6 address count too, as in limits.py. As
everywhere, addresses on loopback have no limit of their own. The numbers belong to one process.
"""

from collections.abc import Hashable
from time import monotonic

from holdfast.http.contract import problems
from holdfast.http.contract.message import Request
from holdfast.http.contract.problem import Problem
from holdfast.http.protection.limits import NETWORK_FACTORS, Buckets
from holdfast.runtime.client_address import ClientAddresses, wider_networks
from holdfast.runtime.token_bucket import Policy

FROM_ONE = Policy("sign-ins", burst=5, every_ms=30_000)
FROM_ALL = Policy("sign-ins of an account", burst=100, every_ms=5_000)
BY_ADDRESS = Policy("sign-ins from an address", burst=20, every_ms=3_000)
BY_NETWORK = [
    Policy("sign-ins from a network", BY_ADDRESS.burst * factor, BY_ADDRESS.every_ms / factor)
    for factor in NETWORK_FACTORS
]


class SignInLimits:
    def __init__(self, addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self._from_one, self._from_all, self._by_address = Buckets(FROM_ONE), Buckets(FROM_ALL), Buckets(BY_ADDRESS)
        self._by_network = [Buckets(policy) for policy in BY_NETWORK]

    def begin(self, request: Request, account: str | None = None) -> None:
        """Counts a try, of an invitation if there is no account. Raises a `Problem` if there were too many.

        Before the password is hashed and in one step, so that tries at once cannot all pass.
        """
        now, counted = _now(), self._counted(request, account)
        if any(buckets.is_empty(key, now) for buckets, key in counted):
            raise Problem(problems.RATE_LIMITED, "Too many attempts to sign in. Retry in half a minute.")
        for buckets, key in counted:
            buckets.take(key, now)

    def succeeded(self, request: Request, account: str) -> None:
        """The password was right: earlier mistakes from there no longer count."""
        self._from_one.refill((account, self._addresses.limited(request.connection)))

    def _counted(self, request: Request, account: str | None) -> list[tuple[Buckets, Hashable]]:
        address = self._addresses.limited(request.connection)
        counted: list[tuple[Buckets, Hashable]] = []
        if address is not None:
            counted += [(self._by_address, address), *zip(self._by_network, wider_networks(address), strict=False)]
        if account is not None:
            counted += [(self._from_one, (account, address)), (self._from_all, account)]
        return counted


def _now() -> int:
    return int(monotonic() * 1000)
