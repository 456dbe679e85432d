"""How fast the line moves.

The model. `serving` is the number of places called so far. A called person may request a pass, and a person with a pass
may buy. Calls and passes expire if unused, so people who leave do not block the line. People **inside** are those who
were called within the grace time and have not requested their pass yet, plus those with an unused pass. `advance` runs
a few times a second with the current observation and moves `serving` forward. It is limited, in this order, by an
operator's pause, the end of the line, stock, and the rate.

Stock. People inside will take about (passes + called · shows) · buys · units_each units. `shows` is the share of called
people who request their pass, `buys` the share of passes that are used (lower for a pass that has been unused for a
while, see `Lingering`), and `units_each` the units per buyer. All three are measured over the last minutes and start
with the safe assumption that everybody comes and buys. More people are called while the expected demand fits the
available stock, so with 90 % no-shows ten times as many are called. When units return or are added, the line moves on.
The last units must not wait for people who silently left. Called people who have not come after three seconds
are **late**, and each unit kept for them is offered to one more person. People with a pass get longer: while units are
free and nobody was called for two seconds, one more person is called. Either way no more than four are inside for each
free unit.

Rate. Additive increase, multiplicative decrease, as in TCP. The gate or settlement is under pressure when it was slower
than its limit on average over the last second or two. Single slow answers say nothing about load: if one in ten is
slow, halving at each would leave a tenth of the rate. Under pressure the rate is halved every 0.4 s, down to a
hundredth of the target. Otherwise it grows by a tenth of the target per second, up to the target. People need seconds
to come and buy after a call, so growing until latency rises would overshoot each time. Therefore the throughput under
pressure is stored as the **knee** (once people have had time to buy), and above it the rate grows ten times more
slowly. A law based on the latency gradient and one without the knee were simulated for comparison; docs/PACE.md has the
figures.

The invariants, for any observation: `serving` never goes back; it never passes the end of the line; when someone is
called, the people inside who are not late are expected to take no more than is available (or only one person is called,
and nobody inside has a fresh pass, or nobody was called for almost two seconds); at most `rate` people are called per
second, except those an operator admits manually.

When it fails. If `advance` is not called, the line stands still, and the missed calls are not made up for all together
(`MAX_STEP_MS`). If counts are late, too few people are called rather than too many, as long as `available` is no later
than they are. If too many are called anyway, the gate refuses them: the pace protects people's time and the machines'
load, not the stock.
"""

from collections.abc import Callable
from math import exp, inf
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import astuple, replace

# After a longer gap (a stopped process, a paused machine) the line continues as if only this much had passed.
MAX_STEP_MS = 1_000
# Unused rate accumulates for at most this long: no burst builds up while stock holds the line back.
MAX_CREDIT_S = 0.25
# The averaging window of `speed`, the basis of the ETA: long enough to hide one bad second.
SPEED_WINDOW_MS = 10_000
# A line in which even fewer buy moves more slowly than it could. In return, a wrong measurement admits at most a
# hundred people per unit.
LEAST_SHARE = 0.01
# People at the end of a line behave differently from those at its head, so observations decay. This takes much longer
# than a pass lives: a purchase is known immediately and a no-show only when the pass expires, so a short memory would
# be biased.
MEMORY_MS = 20 * 60_000
# The weight of the initial assumption that everybody comes and buys, in people.
ASSUMED = 10.0
# Most buyers buy soon. Passes that are unused after this part of their life are counted separately, by how many such
# passes were still used. Otherwise the last units would be kept for people who left long ago.
FRESH_PART = 0.25
# A called person who is there comes at the next poll, after two seconds at most in an ordinary line, and the page buys
# at once. Slightly less, because `advance` runs five times a second.
OFFER_EVERY_MS = 1_750
# Two polls, and a second in a cache on the way. Most people who have not come by then are gone.
LATE_MS = 3_000
# People admitted this way may find nothing left. Among this many people per unit, almost every line has a buyer.
OFFERED_MAX = 4
# Units per buyer is an average over about this many recent buyers.
BUYERS_AVERAGED = 50
# AIMD. Halving every 0.4 s unloads a stalled gate within two seconds. Ten seconds back to the target is short compared
# to the minutes a sale takes, and long compared to the second in which overload shows.
EASE_EVERY_MS = 400
# A single slow answer is no sign of overload, so pressure is averaged over about this time, with each sample capped at
# three times the limit. A stalled gate is detected 0.6 s after its limit.
PRESSURE_WINDOW_MS, MOST_PRESSURE = 1_500, 3.0
EASE_BY = 0.5
GROW_PER_SECOND = 0.1
# Called people need this long to come and buy, and `bought_per_second` to approach the real value.
KNEE_AFTER_MS = 15_000
FEEL_PER_SECOND = 0.01
LEAST_RATE = 0.01


class Share(Struct, frozen=True):
    """The share of people who did something. Observations decay towards the assumption that everybody does."""

    yes: float = 0.0
    no: float = 0.0

    def after(self, yes: int, no: int, elapsed_ms: int) -> "Share":
        kept = exp(-elapsed_ms / MEMORY_MS)
        return Share(self.yes * kept + yes, self.no * kept + no)

    @property
    def value(self) -> float:
        yes = self.yes + ASSUMED
        return max(LEAST_SHARE, yes / (yes + self.no))


class Lingering(Struct, frozen=True):
    """How soon people use a pass that they did not use while it was fresh."""

    used: float = 0.0
    waited_s: float = 0.0

    def after(self, used: int, waiting: int, elapsed_ms: int) -> "Lingering":
        kept, waited = exp(-elapsed_ms / MEMORY_MS), waiting * elapsed_ms / 1_000
        return Lingering(self.used * kept + used, self.waited_s * kept + waited)

    def chance_within(self, seconds: float) -> float:
        per_second = (self.used + ASSUMED) / (self.waited_s + ASSUMED)
        return 1 - exp(-per_second * seconds)


class Limits(Struct, frozen=True):
    """How slow the gate and settlement may get before fewer people are admitted."""

    gate_latency_ms: float = 100.0
    settlement_lag_ms: float = 10_000.0


DEFAULT_LIMITS = Limits()


class Counts(Struct, frozen=True):
    """What people did since the sale began. A person who comes after their call expired counts in both."""

    passes_given: int = 0
    calls_lapsed: int = 0
    passes_used: int = 0
    # The stale passes among them.
    stale_used: int = 0
    passes_lapsed: int = 0
    units_taken: int = 0
    # Purchases that were paid or finally failed.
    settled: int = 0


class Observation(Struct, frozen=True):
    joined: int
    # Called within the grace time, without a pass yet.
    called: int
    # Issued, neither used nor expired.
    passes: int
    available: int
    # Those of the called who were called longer than LATE_MS ago.
    late: int = 0
    # The passes that are older than FRESH_PART of their life.
    stale: int = 0
    # The latency of a recent answer, or the age of the oldest unanswered command if that is higher: a stalled gate
    # answers nothing and would otherwise look fast.
    gate_latency_ms: float = 0.0
    # The age of the oldest payment that is ready to be processed.
    settlement_lag_ms: float = 0.0
    counts: Counts = Counts()


class Pace(Struct, frozen=True, kw_only=True):
    """The state between two calls of `advance`. The room stores it with the line."""

    target_per_second: float
    rate_per_second: float
    pass_seconds: float
    at: int
    serving: int = 0
    is_paused: bool = False
    # Admitted manually and not called yet: limited by stock but not by the rate.
    extra: int = 0
    # When somebody was called last.
    called_at: int = 0
    credit: float = 0.0
    speed_per_second: float = 0.0
    # The average of the last seconds.
    pressure: float = 0.0
    eased_at: int = 0
    # The rate that was sustained under overload. Above it the rate grows slowly.
    knee_per_second: float = inf
    # When the first purchase was observed. For a while after it, throughput says nothing about capacity.
    bought_since: int | None = None
    bought_per_second: float = 0.0
    settled_per_second: float = 0.0
    counts: Counts = Counts()
    shows: Share = Share()
    buys: Share = Share()
    lingering: Lingering = Lingering()
    units_each: float = 1.0
    # The limit per buyer. One pass may buy twice if the first payment was declined, which is still one buyer.
    units_each_max: float = inf


class Strain(Struct, frozen=True):
    """The pressure on the busiest stage (1 is its limit), and how many buyers that stage serves per second."""

    pressure: float
    served_per_second: float


# Sets the rate from the strain, the time since the last step, and the current time.
Law: TypeAlias = Callable[[Pace, Strain, int, int], Pace]


def begin(target_per_second: float, pass_seconds: float, now: int, units_each: float = 1.0) -> Pace:
    """`units_each` is the limit per buyer, assumed until purchases were measured."""
    return Pace(
        target_per_second=target_per_second,
        rate_per_second=target_per_second,
        pass_seconds=pass_seconds,
        at=now,
        units_each=units_each,
    )


def with_rate(pace: Pace, per_second: float) -> Pace:
    """A lower target takes effect immediately, a higher one gradually."""
    return replace(pace, target_per_second=per_second, rate_per_second=min(pace.rate_per_second, per_second))


def paused(pace: Pace, is_paused: bool) -> Pace:
    return replace(pace, is_paused=is_paused, credit=0.0)


def admit(pace: Pace, people: int) -> Pace:
    return replace(pace, extra=pace.extra + people)


def aimd(pace: Pace, strain: Strain, elapsed_ms: int, now: int) -> Pace:
    return _grown(pace, elapsed_ms) if strain.pressure <= 1 else _eased(pace, strain.served_per_second, now)


def _grown(pace: Pace, elapsed_ms: int) -> Pace:
    target, rate = pace.target_per_second, pace.rate_per_second
    growth = GROW_PER_SECOND if rate < pace.knee_per_second else FEEL_PER_SECOND
    rate = min(target, rate + target * growth * elapsed_ms / 1_000)
    return replace(pace, rate_per_second=rate, knee_per_second=inf if rate >= target else pace.knee_per_second)


def _eased(pace: Pace, served_per_second: float, now: int) -> Pace:
    knee = _knee(pace, served_per_second, now)
    if now - pace.eased_at < EASE_EVERY_MS:
        return replace(pace, knee_per_second=knee)
    rate = max(pace.rate_per_second * EASE_BY, pace.target_per_second * LEAST_RATE)
    return replace(pace, rate_per_second=rate, eased_at=now, knee_per_second=knee)


def _knee(pace: Pace, served_per_second: float, now: int) -> float:
    """The best throughput since the overload began.

    A stalled gate says nothing about its capacity. Neither does one that joins slow down before people had time to buy.
    """
    if pace.bought_since is None or now - pace.bought_since < KNEE_AFTER_MS:
        return pace.knee_per_second
    served = served_per_second / (pace.shows.value * pace.buys.value)
    return served if pace.knee_per_second == inf else max(served, pace.knee_per_second)


def advance(pace: Pace, seen: Observation, now: int, limits: Limits = DEFAULT_LIMITS, law: Law = aimd) -> Pace:
    """Returns the next state; its `serving` is the new cursor."""
    elapsed = min(max(now - pace.at, 0), MAX_STEP_MS)
    pace = _learn(pace, seen, now)
    strain = _strain(pace, seen, limits)
    pace = replace(pace, pressure=_eased_into(pace.pressure, strain.pressure, elapsed))
    pace = law(pace, Strain(pace.pressure, strain.served_per_second), elapsed, now)
    rate = pace.rate_per_second
    credit = 0.0 if pace.is_paused else min(pace.credit, max(1.0, rate * MAX_CREDIT_S)) + rate * elapsed / 1_000
    room = min(max(seen.joined - pace.serving, 0), max(room_for(pace, seen), _offers(pace, seen, now)))
    by_rate = min(int(credit), room)
    by_hand = min(pace.extra, room - by_rate)
    return replace(
        pace,
        serving=pace.serving + by_rate + by_hand,
        called_at=now if by_rate + by_hand else pace.called_at,
        at=max(now, pace.at),
        extra=pace.extra - by_hand,
        credit=credit - by_rate,
        speed_per_second=_smoothed(pace.speed_per_second, by_rate + by_hand, elapsed),
    )


def room_for(pace: Pace, seen: Observation) -> int:
    """How many more may be called before the expected demand of the people inside exceeds the stock."""
    if seen.available <= 0:
        return 0
    buys, by_call = pace.buys.value, pace.buys.value * pace.shows.value
    lingers = min(buys, pace.lingering.chance_within(pace.pass_seconds * (1 - FRESH_PART)))
    buyers = (seen.passes - seen.stale) * buys + seen.stale * lingers + seen.called * by_call
    room = int((seen.available / pace.units_each - buyers) / by_call)
    # The last unit is offered even if buyers usually take more, and is not kept for people with stale passes.
    is_quiet = seen.passes - seen.stale + seen.called == 0
    return max(room, 1 if is_quiet else 0)


def _offers(pace: Pace, seen: Observation, now: int) -> int:
    """How many more are called for free units, because the people called for them do not come."""
    if seen.available <= 0:
        return 0
    on_time = replace(seen, called=seen.called - min(seen.late, seen.called))
    is_overdue = now - pace.called_at >= OFFER_EVERY_MS
    inside = seen.passes - seen.stale + seen.called
    most = int(OFFERED_MAX * max(seen.available / pace.units_each, 1)) - inside
    return min(max(room_for(pace, on_time), int(is_overdue)), max(most, 0))


def _strain(pace: Pace, seen: Observation, limits: Limits) -> Strain:
    gate = Strain(seen.gate_latency_ms / limits.gate_latency_ms, pace.bought_per_second)
    settlement = Strain(seen.settlement_lag_ms / limits.settlement_lag_ms, pace.settled_per_second)
    return max(gate, settlement, key=lambda strain: strain.pressure)


def _eased_into(before: float, pressure: float, elapsed_ms: int) -> float:
    weight = min(1.0, elapsed_ms / PRESSURE_WINDOW_MS)
    return before + (min(pressure, MOST_PRESSURE) - before) * weight


def _learn(pace: Pace, seen: Observation, now: int) -> Pace:
    elapsed, new = max(now - pace.at, 0), _difference(seen.counts, pace.counts)
    units_each = (pace.units_each * BUYERS_AVERAGED + new.units_taken) / (BUYERS_AVERAGED + new.passes_used)
    return replace(
        pace,
        counts=seen.counts,
        shows=pace.shows.after(new.passes_given, new.calls_lapsed, elapsed),
        buys=pace.buys.after(new.passes_used, new.passes_lapsed, elapsed),
        lingering=pace.lingering.after(new.stale_used, seen.stale, elapsed),
        units_each=min(max(1.0, units_each), pace.units_each_max),
        bought_since=now if pace.bought_since is None and new.passes_used else pace.bought_since,
        bought_per_second=_smoothed(pace.bought_per_second, new.passes_used, elapsed),
        settled_per_second=_smoothed(pace.settled_per_second, new.settled, elapsed),
    )


def _difference(now: Counts, before: Counts) -> Counts:
    """The increase. Counts that went back (a restart, a replica) are ignored."""
    return Counts(*(max(0, one - other) for one, other in zip(astuple(now), astuple(before), strict=True)))


def _smoothed(per_second: float, happened: int, elapsed_ms: int) -> float:
    if elapsed_ms == 0:
        return per_second
    weight = min(1.0, elapsed_ms / SPEED_WINDOW_MS)
    return per_second + (happened * 1_000 / elapsed_ms - per_second) * weight
