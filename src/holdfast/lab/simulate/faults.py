"""The faults of a run, drawn from its seed before it starts, as plain data. Shrinking a failure leaves some of them
out."""

from enum import StrEnum
from random import Random

from msgspec import Struct


class Kind(StrEnum):
    # Faults of one call on a channel, selected by the call's number.
    LOST_REQUEST = "lost_request"
    LOST_REPLY = "lost_reply"
    REFUSED = "refused"
    SLOW = "slow"
    LATE = "late"
    DUPLICATED = "duplicated"
    DECLINED = "declined"
    PENDING = "pending"
    # Faults of a process.
    CRASH = "crash"
    PAUSE = "pause"
    CUT_OFF = "cut_off"
    WALL_STEP = "wall_step"
    # Faults of a store or a service that last for a while.
    DOWN = "down"
    READ_ONLY = "read_only"
    CLOCK_STEP = "clock_step"
    WENT_BACK = "went_back"
    # Faults of Redis.
    CUT_OFF_REDIS = "cut_off_redis"
    KEY_LOST = "key_lost"
    FLUSHED = "flushed"
    LIBRARY_LOST = "library_lost"
    RESTARTED = "restarted"
    RESTORED = "restored"


# After these, earlier writes to Redis may be gone.
FORGETFUL = frozenset({Kind.FLUSHED, Kind.RESTORED})
OF_CLOCKS = frozenset({Kind.WALL_STEP, Kind.CLOCK_STEP})


class Fault(Struct, frozen=True, order=True):
    """`on` is a channel, a process or a store. `nth` selects a call or a step of a process by number; `at_s` and
    `for_s` select a time. `by` is the magnitude."""

    kind: Kind
    on: str
    nth: int = 0
    at_s: float = 0.0
    for_s: float = 0.0
    by: float = 0.0

    def __str__(self) -> str:
        where = f"{self.kind} {self.on}"
        if self.nth:
            where += f" #{self.nth}"
        if self.at_s:
            where += f" at {self.at_s} s"
        if self.for_s:
            where += f" for {self.for_s} s"
        return where + (f" by {self.by:g}" if self.by else "")


_OF_WRITES = (Kind.LOST_REQUEST, Kind.LOST_REPLY, Kind.LOST_REPLY, Kind.REFUSED, Kind.SLOW)
# By channel: the number of calls to expect, from which the faulty call is drawn, and the possible faults.
_OF_CALLS: dict[str, tuple[int, tuple[Kind, ...]]] = {
    "gate": (40, _OF_WRITES),
    "settling": (25, _OF_WRITES),
    "write": (60, _OF_WRITES),
    "read": (120, (Kind.LOST_REQUEST, Kind.SLOW)),
    "api": (60, (Kind.LOST_REQUEST, Kind.LOST_REPLY, Kind.LOST_REPLY, Kind.SLOW, Kind.DUPLICATED)),
    "payments": (
        30,
        (
            Kind.LOST_REQUEST,
            Kind.LOST_REPLY,
            Kind.LOST_REPLY,
            Kind.LATE,
            Kind.DUPLICATED,
            Kind.SLOW,
            Kind.DECLINED,
            Kind.PENDING,
            Kind.REFUSED,
        ),
    ),
    # When Redis is the gate: batches, and all other calls.
    "batch": (40, (*_OF_WRITES, Kind.LATE, Kind.DUPLICATED)),
    "redis": (150, (*_OF_WRITES, Kind.LATE)),
    "webhooks": (30, (Kind.LOST_REQUEST, Kind.LOST_REPLY, Kind.REFUSED, Kind.SLOW)),
}
STORES = ("ledger", "payments")
ACTIVE_S = 12.0


def draw(rng: Random, hosts: list[str], channels: list[str]) -> list[Fault]:
    """Few faults in most runs, many in some: single-fault bugs are easiest to find alone, others need a combination."""
    calls = rng.choice((0, 1, 2, 3, 5, 8, 13))
    others = rng.choice((0, 0, 1, 1, 2, 3, 5))
    of_calls = {_of_call(rng, channels) for _ in range(calls)}
    of_others = list({_other(rng, hosts): None for _ in range(others)})
    clocks = [fault for fault in of_others if fault.kind in OF_CLOCKS]
    # Two clocks that are wrong by the same amount are believed (`runtime/engine_clock.py`), so at most one clock is
    # wrong.
    return sorted([*of_calls, *[fault for fault in of_others if fault not in clocks[1:]]])


def draw_going_back(rng: Random) -> Fault:
    """The ledger returns to a slightly earlier state, as after a failover to a lagging replica."""
    return Fault(Kind.WENT_BACK, "ledger", at_s=round(rng.uniform(0.3, 6.0), 3), by=round(rng.uniform(0.01, 1.5), 3))


_OF_REDIS = (
    *(Kind.KEY_LOST,) * 4,
    *(Kind.FLUSHED, Kind.RESTORED, Kind.RESTARTED, Kind.LIBRARY_LOST, Kind.DOWN, Kind.CUT_OFF_REDIS, Kind.CLOCK_STEP),
)


def draw_of_redis(rng: Random, hosts: list[str]) -> list[Fault]:
    return list({_of_redis(rng, hosts): None for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))})


def _of_redis(rng: Random, hosts: list[str]) -> Fault:
    at_s, for_s = round(rng.uniform(0.0, ACTIVE_S), 3), round(rng.choice((0.1, 0.5, 2.0, 6.0)) * rng.random() + 0.05, 3)
    match kind := rng.choice(_OF_REDIS):
        case Kind.KEY_LOST:
            return Fault(kind, "redis", at_s=at_s, by=float(rng.randrange(6)))
        case Kind.DOWN:
            return Fault(kind, "redis", at_s=at_s, for_s=for_s)
        case Kind.CUT_OFF_REDIS:
            return Fault(kind, rng.choice(hosts), at_s=at_s, for_s=for_s)
        case Kind.CLOCK_STEP:
            return Fault(kind, "redis", at_s=at_s, by=rng.choice(_STEPS_S))
        case Kind.RESTORED:
            return Fault(kind, "redis", at_s=at_s, by=round(rng.uniform(0.01, 1.5), 3))
        case _:
            return Fault(kind, "redis", at_s=at_s)


def _of_call(rng: Random, channels: list[str]) -> Fault:
    channel = rng.choice(channels)
    calls, kinds = _OF_CALLS[channel]
    kind = rng.choice(kinds)
    # Early calls matter most, so they are drawn more often.
    nth = 1 + int(calls * rng.random() ** 1.5)
    by = round(rng.choice((0.05, 0.3, 1.0, 3.0, 8.0)) * rng.uniform(0.5, 1.5), 3)
    return Fault(kind, channel, nth=nth, by=by if kind in (Kind.SLOW, Kind.LATE, Kind.PENDING) else 0.0)


def _other(rng: Random, hosts: list[str]) -> Fault:
    at_s, for_s = round(rng.uniform(0.0, ACTIVE_S), 3), round(rng.choice((0.1, 0.5, 2.0, 6.0)) * rng.random() + 0.05, 3)
    match rng.choice(("crash", "crash", "crash", "pause", "cut", "down", "read_only", "wall", "clock")):
        case "crash":
            return Fault(Kind.CRASH, rng.choice(hosts), nth=1 + int(600 * rng.random() ** 2), for_s=for_s)
        case "pause":
            return Fault(Kind.PAUSE, rng.choice(hosts), at_s=at_s, for_s=round(for_s * rng.choice((1, 6)), 3))
        case "cut":
            return Fault(Kind.CUT_OFF, rng.choice(hosts), at_s=at_s, for_s=for_s)
        case "down":
            return Fault(Kind.DOWN, rng.choice(STORES), at_s=at_s, for_s=for_s)
        case "read_only":
            return Fault(Kind.READ_ONLY, "ledger", at_s=at_s, for_s=for_s)
        case "wall":
            return Fault(Kind.WALL_STEP, rng.choice(hosts), at_s=at_s, by=rng.choice(_STEPS_S))
        case _:
            return Fault(Kind.CLOCK_STEP, "ledger", at_s=at_s, by=rng.choice(_STEPS_S))


_STEPS_S = (-90_000.0, -3_600.0, -30.0, 30.0, 3_600.0, 90_000.0)
