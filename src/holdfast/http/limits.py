"""How often one address, and one buyer, may ask.

A rate is kept as one number per address or buyer (domain/bucket.py), and forgotten when it is full again, so memory is
bounded by how many ask within the last seconds; should those be too many, all are forgotten and begin afresh, because a
limit that fails must not take the sale with it. The numbers are of this process: behind several, each allows as much.

Services are not limited. Their keys are recognised before anything here is asked; only whoever sends keys that turn out
wrong is slowed down, because looking one up costs a query. Clients on loopback are exempt from limits by address, so
that rehearsals and benches measure the server.
"""

from time import monotonic

from msgspec import Struct

from holdfast import metrics
from holdfast.domain.bucket import Policy, Taken, is_idle, take
from holdfast.http.client_address import ClientAddresses
from holdfast.http.console.cookie import SCHEME as SESSION
from holdfast.http.identity import Caller
from holdfast.http.problems import MEDIA_TYPE, Problem
from holdfast.http.requests import Answer, Headers, Request

BUCKETS_MAX = 50_000
# A page that opens asks for several things at once, and whoever clicks fifty times gets the same answer fifty times.
BURST_S = 5
# Looking at one thing more often than every two seconds is too often. A little less, because networks jitter.
LOOK = Policy("looks", burst=1, every_ms=1_900)
WRONG_KEYS = Policy("keys", burst=20, every_ms=1_000)
# Probes, scrapes and payment providers are known by other means than their address.
_UNLIMITED = ("/healthz/", "/metrics", "/v1/payments/")
_SALES = "/v1/sales/"


class Buckets:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._full_at: dict[str, float] = {}

    def take(self, key: str, now: int) -> Taken:
        taken = take(self.policy, self._full_at.get(key, 0.0), now)
        if len(self._full_at) >= BUCKETS_MAX and key not in self._full_at:
            self._forget(now)
        self._full_at[key] = taken.full_at
        return taken

    def is_empty(self, key: str, now: int) -> bool:
        full_at = self._full_at.get(key)
        return full_at is not None and not take(self.policy, full_at, now).is_allowed

    def __len__(self) -> int:
        return len(self._full_at)

    def _forget(self, now: int) -> None:
        self._full_at = {key: at for key, at in self._full_at.items() if not is_idle(at, now)}
        if len(self._full_at) >= BUCKETS_MAX // 2:
            self._full_at.clear()


class Passed(Struct, frozen=True):
    """Nothing speaks against it; `headers` go with the answer."""

    headers: Headers


_UNCOUNTED = Passed([])


class Limits:
    """A rate of 0 means no limit."""

    def __init__(self, addresses: ClientAddresses, *, per_address: int, per_buyer: int) -> None:
        self._addresses = addresses
        self._by_address = _buckets("address", per_address)
        self._by_buyer = _buckets("buyer", per_buyer)
        self._looks = Buckets(LOOK) if per_buyer else None
        self._wrong_keys = Buckets(WRONG_KEYS) if per_address else None

    def check_address(self, request: Request) -> Answer | None:
        """Asked before anything is known of the caller; the refusal, if it asks too often."""
        if self._by_address is None or request.path.startswith(_UNLIMITED):
            return None
        address = self._addresses.limited(request)
        if address is None:
            return None
        now = _now()
        if _has_service_key(request):
            assert self._wrong_keys is not None
            is_too_often = self._wrong_keys.is_empty(address, now)
            return _refusal(WRONG_KEYS, self._wrong_keys.take(address, now)) if is_too_often else None
        taken = self._by_address.take(address, now)
        return None if taken.is_allowed else _refusal(self._by_address.policy, taken)

    def note_wrong_key(self, request: Request) -> None:
        """The key was not known: guessing costs whoever does it."""
        address = self._addresses.limited(request)
        if self._wrong_keys is not None and address is not None and _has_service_key(request):
            self._wrong_keys.take(address, _now())

    def check_buyer(self, request: Request, caller: Caller) -> Passed | Answer:
        if self._by_buyer is None or caller.buyer_id is None:
            return _UNCOUNTED
        now = _now()
        if is_look(request):
            # Documents that caches share carry nobody's limits.
            assert self._looks is not None
            looked = self._looks.take(f"{caller.buyer_id} {request.path}", now)
            return _UNCOUNTED if looked.is_allowed else _refusal(LOOK, looked)
        policy, taken = self._by_buyer.policy, self._by_buyer.take(caller.buyer_id, now)
        return Passed(_headers(policy, taken)) if taken.is_allowed else _refusal(policy, taken)


def _buckets(name: str, per_second: int) -> Buckets | None:
    return Buckets(Policy(name, per_second * BURST_S, 1_000 / per_second)) if per_second else None


def _now() -> int:
    return int(monotonic() * 1000)


def _has_service_key(request: Request) -> bool:
    """Or a session that was begun with one."""
    given = request.authorization
    return given is not None and (given[7:10] == "hf_" or given.startswith(SESSION))


def is_look(request: Request) -> bool:
    """At a sale's facts, or at how it stands."""
    if request.method != "GET" or not request.path.startswith(_SALES):
        return False
    rest = request.path[len(_SALES) :]
    return rest.endswith("/now") or "/" not in rest


def _headers(policy: Policy, taken: Taken) -> Headers:
    return [("ratelimit-policy", policy.header), ("ratelimit", taken.header(policy))]


def _refusal(policy: Policy, taken: Taken) -> Answer:
    metrics.count_limited(policy.name)
    wait_s = max(1, -(-taken.next_ms // 1000))
    problem = rate_limited(wait_s, retry_after_ms=taken.next_ms)
    head = [("content-type", MEDIA_TYPE), ("retry-after", str(wait_s)), *_headers(policy, taken)]
    return Answer(problem.status, head, problem.body())


def rate_limited(wait_s: int = 2, **members: int) -> Problem:
    detail = f"You ask too often. Wait {wait_s} s, and poll no faster than `next_poll_ms` says."
    return Problem(429, "rate_limited", "Too often", detail, **members)
