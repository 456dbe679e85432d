"""Rate limits by address and by buyer.

A rate is kept as one number per address or buyer (runtime/token_bucket.py) and dropped when the bucket is full again,
so memory is bounded by the number of callers within a few seconds. Beyond a maximum, the least recently used are
dropped. The numbers belong to one process; with several, each allows the full rate.

An IPv6 client may have thousands of networks, so the larger networks around it count, too, with higher limits.

Services are not limited; their cached keys are recognised first. A key that is not cached has to be looked up, which
costs a query, so wrong keys are limited by address, and each counts as a request without a key. Clients on loopback are
exempt from limits by address, so that load tests and benchmarks measure the server.
"""

from collections.abc import Hashable, Iterator
from functools import lru_cache
from itertools import islice
from time import monotonic

from msgspec import Struct

from holdfast.access.console_sessions import SCHEME as SESSION
from holdfast.access.identity import Caller
from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import RateClass
from holdfast.http.contract.message import Answer, Headers, Request
from holdfast.http.contract.problem import HEAD, Problem
from holdfast.runtime import metrics
from holdfast.runtime.client_address import ClientAddresses, wider_networks
from holdfast.runtime.token_bucket import Policy, Taken, is_idle, left_header, take

# As globals, because members of an enum are slow to find.
_PROBE, _LOOK = RateClass.PROBE, RateClass.LOOK
BUCKETS_MAX = 50_000
# A page that opens sends several requests at once, and fifty clicks get the same answer fifty times.
BURST_S = 5
# A buyer may poll one document every two seconds. A little less, because networks jitter.
LOOK = Policy("looks", burst=1, every_ms=1_900)
WRONG_KEYS = Policy("keys", burst=20, every_ms=1_000)
# A load balancer probes about once a second; a payment provider sends notices in bursts, and retries refused ones.
PROBE = Policy("probes", burst=200, every_ms=10)
# The networks around an IPv6 client have this many times the limit of one address, widest first.
NETWORK_FACTORS = (16, 4)


class Buckets:
    """In the order of their last use."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._full_at: dict[Hashable, float] = {}

    def take(self, key: Hashable, now: int) -> Taken:
        taken = take(self.policy, self._full_at.pop(key, 0.0), now)
        if len(self._full_at) >= BUCKETS_MAX:
            self._forget(now)
        self._full_at[key] = taken.full_at
        return taken

    def is_empty(self, key: Hashable, now: int) -> bool:
        full_at = self._full_at.get(key)
        return full_at is not None and not take(self.policy, full_at, now).is_allowed

    def refill(self, key: Hashable) -> None:
        self._full_at.pop(key, None)

    def __len__(self) -> int:
        return len(self._full_at)

    def _forget(self, now: int) -> None:
        self._full_at = {key: at for key, at in self._full_at.items() if not is_idle(at, now)}
        # A tenth at once, because finding the oldest takes a walk past those that were removed.
        for oldest in [*islice(self._full_at, max(0, len(self._full_at) - BUCKETS_MAX * 9 // 10))]:
            del self._full_at[oldest]


class Passed(Struct, frozen=True):
    """Allowed; `headers` go with the answer."""

    headers: Headers


_UNCOUNTED = Passed([])


class Limits:
    """A rate of 0 means no limit."""

    def __init__(self, addresses: ClientAddresses, *, per_address: int, per_buyer: int) -> None:
        self._addresses = addresses
        self._by_address = _buckets("address", per_address)
        self._by_network = [_buckets("network", per_address * factor) for factor in NETWORK_FACTORS]
        self._by_buyer = _buckets("buyer", per_buyer)
        self._looks = Buckets(LOOK) if per_buyer else None
        self._wrong_keys = [
            Buckets(Policy(WRONG_KEYS.name, WRONG_KEYS.burst * factor, WRONG_KEYS.every_ms / factor))
            for factor in (*NETWORK_FACTORS, 1)
        ]
        self._probes = Buckets(PROBE)

    def check_address(self, request: Request, rate: RateClass) -> Answer | None:
        """Called before the caller is authenticated; returns the refusal if it sends too many requests."""
        address = None if self._by_address is None else self._addresses.limited(request.connection)
        if address is None:
            return None
        if not _has_service_key(request):
            return self._count(address, request.path, rate)
        now = _now()
        for buckets, network in self._wrong_keys_of(address):
            if buckets.is_empty(network, now):
                return _refusal(buckets.policy, buckets.take(network, now))
        return None

    def count_unauthorized(self, request: Request, rate: RateClass) -> Answer | None:
        """The credentials were refused: guessing is slowed down, and the request counts as one without any."""
        if self._by_address is None or not _has_service_key(request):
            return None  # Other credentials were counted before they were checked.
        address = self._addresses.limited(request.connection)
        if address is None:
            return None
        for buckets, network in self._wrong_keys_of(address):
            buckets.take(network, _now())
        return self._count(address, request.path, rate)

    def _wrong_keys_of(self, address: str) -> Iterator[tuple[Buckets, str]]:
        """Counts for the networks around it, too, with higher limits: one guesser must not lock out a whole company."""
        *wider, own = self._wrong_keys
        yield from zip(wider, wider_networks(address), strict=False)
        yield own, address

    def check_known_buyer(self, address: str | None, caller: Caller, path: str, rate: RateClass) -> Passed | Answer:
        """Both limits, for a request whose address and caller are known."""
        refused = None if self._by_address is None or address is None else self._count(address, path, rate)
        return refused or self.check_buyer(path, caller, rate)

    def _count(self, address: str, path: str, rate: RateClass) -> Answer | None:
        assert self._by_address is not None
        now = _now()
        if rate is _PROBE:
            taken = self._probes.take((address, path), now)
            return None if taken.is_allowed else _refusal(PROBE, taken)
        for buckets, network in zip(self._by_network, wider_networks(address), strict=False):
            assert buckets is not None
            taken = buckets.take(network, now)
            if not taken.is_allowed:
                return _refusal(buckets.policy, taken)
        taken = self._by_address.take(address, now)
        return None if taken.is_allowed else _refusal(self._by_address.policy, taken)

    def check_buyer(self, path: str, caller: Caller, rate: RateClass) -> Passed | Answer:
        if self._by_buyer is None or caller.buyer_id is None:
            return _UNCOUNTED
        now = _now()
        if rate is _LOOK:
            # Documents that caches share carry no buyer's limits.
            assert self._looks is not None
            looked = self._looks.take(hash((caller.buyer_id, path)), now)
            return _UNCOUNTED if looked.is_allowed else _refusal(LOOK, looked)
        policy, taken = self._by_buyer.policy, self._by_buyer.take(caller.buyer_id, now)
        return _passed(policy, taken.remaining, taken.next_ms) if taken.is_allowed else _refusal(policy, taken)


def _buckets(name: str, per_second: int) -> Buckets | None:
    return Buckets(Policy(name, per_second * BURST_S, 1_000 / per_second)) if per_second else None


def _now() -> int:
    return int(monotonic() * 1000)


def _has_service_key(request: Request) -> bool:
    """Or a session started with one."""
    given = request.authorization
    return given is not None and (given[:10].lower() == "bearer hf_" or given.startswith(f"{SESSION} "))


# Thousands of responses per second carry the same few values.
@lru_cache(maxsize=1_024)
def _passed(policy: Policy, remaining: int, next_ms: int) -> Passed:
    return Passed([("ratelimit-policy", policy.header), ("ratelimit", left_header(policy, remaining, next_ms))])


def _refusal(policy: Policy, taken: Taken) -> Answer:
    metrics.count_limited(policy.name)
    wait_s = max(1, -(-taken.next_ms // 1000))
    detail = f"Rate limit exceeded. Retry after {wait_s} s, and poll no faster than `next_poll_ms`."
    problem = Problem(problems.RATE_LIMITED, detail, retry_after_ms=taken.next_ms)
    head = [*HEAD, ("retry-after", str(wait_s)), *_passed(policy, taken.remaining, taken.next_ms).headers]
    return Answer(problem.status, head, problem.body())
