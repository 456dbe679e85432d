"""Whether this process can do its work, known from memory (docs/adr/0012-readiness-by-heartbeat.md).

The model. Heartbeats write to every store by the path that real work takes, once a second, and note here when that last
succeeded. A check is one store or one role of background work; it passes while its last success is fresh and nothing
failed since. A capability (selling, settling, joining) is a check that passes if all the checks it needs do. So a probe
costs no store call, and silence is a failure.

Anything else that must not fail silently can be added with `report`.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from time import monotonic

from msgspec import Struct

# Heartbeats come once a second; a missing one reveals a store that hangs.
FRESH_S = 2.0

# Without this capability a load balancer should send no requests here.
SELLING = "selling"


class Check(Struct, frozen=True):
    ok: bool
    reason: str | None
    age_ms: int


class _Beat(Struct):
    fresh_s: float
    succeeded_at: float
    reason: str | None = "starting"
    # The reason to report once it is no longer fresh.
    silence: str = "no_answer"


class Readiness:
    def __init__(self, capabilities: Mapping[str, Sequence[str]], now: Callable[[], float] = monotonic) -> None:
        self._capabilities = capabilities
        self._now = now
        self._beats: dict[str, _Beat] = {}

    def watch(self, name: str, *, fresh_s: float = FRESH_S, silence: str = "no_answer") -> None:
        self._beats[name] = _Beat(fresh_s, self._now(), silence=silence)

    def succeeded(self, name: str, *, age_s: float = 0.0) -> None:
        beat = self._beats[name]
        beat.succeeded_at, beat.reason = self._now() - age_s, None

    def failed(self, name: str, reason: str) -> None:
        self._beats[name].reason = reason

    def report(self, name: str, reason: str | None) -> None:
        """A check that passes or fails until the next report, however old it gets."""
        if name not in self._beats:
            self.watch(name, fresh_s=inf)
        if reason is None:
            self.succeeded(name)
        else:
            self.failed(name, reason)

    def troubles(self) -> dict[str, str | None]:
        """Why each store, role or report fails; None if it does not. Capabilities follow from them."""
        return {name: self._check(beat).reason for name, beat in self._beats.items()}

    def checks(self) -> dict[str, Check]:
        """The capabilities first, then everything they are made of."""
        found = {name: self._check(beat) for name, beat in self._beats.items()}
        return {name: _all([found[needed] for needed in needs]) for name, needs in self._capabilities.items()} | found

    def _check(self, beat: _Beat) -> Check:
        age_s = self._now() - beat.succeeded_at
        reason = beat.reason or (beat.silence if age_s > beat.fresh_s else None)
        return Check(reason is None, reason, round(age_s * 1000))


def _all(needed: Sequence[Check]) -> Check:
    first_failed = next((check for check in needed if not check.ok), None)
    age_ms = max(check.age_ms for check in needed)
    return Check(first_failed is None, None if first_failed is None else first_failed.reason, age_ms)
