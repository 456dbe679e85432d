"""How fast the line moves.

The model. `serving` is how many places of the line have been called. Whoever is called may ask for a pass, and with a
pass may buy; both lapse if not used in time, so an abandoned head holds up nobody. People **inside** are those called a
moment ago who have not asked yet (for as long as `grace` lasts, the room's to count) and those with a pass not yet
used. `advance` is called a few times a second with what was observed, and moves `serving` on. It is held back by, in
this order: an operator's pause; the end of the line; stock; the rate.

Stock. People inside will take about (passes + called · shows) · buys · units_each units, where `shows` is the share of
those called who ask for their pass, `buys` the share of passes that are used (less for a pass that has been lying
about, see `Lingering`), `units_each` what one buyer takes. All are measured over the last minutes and start from the
careful end (everybody comes, everybody buys). As long as this stays within what is available, more are called; so 90 %
no-shows let ten times as many in. When units return or are added, the line moves on by itself.

Rate. Additive increase, multiplicative decrease, as TCP does. Whatever works for the buyers (the gate, settlement) is
said to be under pressure when it was slower than its limit over the last second or two: an answer that took long by
chance says nothing about load, and where one in ten does, halving at each would leave a tenth of the rate. Under
pressure the rate is halved, every 0.4 s, down to a hundredth of the target; else it grows by a tenth of the target per
second, up to the target. But people take seconds to come and buy after they were called, so growing until it hurts
would overshoot each time: what was served under pressure is remembered as the **knee** (once people have had the time
to buy), and beyond it the rate grows ten times as slowly. A law that follows the gradient of latency, and one without
the knee, were simulated beside it: docs/PACE.md has the figures.

The invariants, whatever is observed: `serving` never goes back; it never passes the end of the line; whenever somebody
is called, those inside are expected to take no more than is available (or it is a single person, and nobody else
inside has a fresh pass); not more than `rate` are called per second, but for those an operator lets in by hand.

When it fails. If nobody calls `advance` the line stands still, and what was not called meanwhile is not made up for in
one go (`MAX_STEP_MS`). If counts are late, too few are called rather than too many as long as `available` is late no
more than they are. Should too many be called all the same, the gate refuses: the pace protects people's time and the
machines' load, never the stock.
"""

from collections.abc import Callable
from math import exp, inf
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import astuple, replace

# After a longer silence (a stopped process, a paused machine) the line goes on as if only this much had passed.
MAX_STEP_MS = 1_000
# What could not be called at once is made up for only within this time: no crowd gathers while stock holds the line.
MAX_CREDIT_S = 0.25
# Over how long `speed` is averaged, which is what an ETA is told from: long enough for one bad second not to show.
SPEED_WINDOW_MS = 10_000
# A line in which even fewer buy is walked through more slowly than it might be; but a mistaken measurement can let in
# no more than a hundred people per unit.
LEAST_SHARE = 0.01
# Those at the end of a line are not like those at its head. Much longer than a pass lives: who does something is known
# at once and who does not only when it lapses, so a short memory would believe in too few.
MEMORY_MS = 20 * 60_000
# People who did everything, before anyone was seen: about as many who did not then outweigh them.
ASSUMED = 10.0
# Most who buy do so soon. Who has not when this part of their pass's life is over is counted apart, by how many of the
# others who waited so long still bought: otherwise the last units would wait for people who left long ago.
FRESH_PART = 0.25
# How many units one buyer takes is an average over about the last so many buyers.
BUYERS_AVERAGED = 50
# AIMD. Halving every 0.4 s takes a stalled gate's load away within two seconds; ten seconds back to the target are
# quick beside the minutes a sale takes, and slow beside the second in which trouble shows.
EASE_EVERY_MS = 400
# An answer that took long by chance is no sign of too much load: what counts is the average of about that time, in
# which none counts for more than three times the limit. A gate that stands still is noticed 0.6 s after its limit.
PRESSURE_WINDOW_MS, MOST_PRESSURE = 1_500, 3.0
EASE_BY = 0.5
GROW_PER_SECOND = 0.1
# Those called need that long to come and buy, and `bought_per_second` to be near what they do.
KNEE_AFTER_MS = 15_000
FEEL_PER_SECOND = 0.01
LEAST_RATE = 0.01


class Share(Struct, frozen=True):
    """Which part of some people did a thing. They are forgotten in time; then it is assumed that everybody does."""

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
    """How soon those use their pass who did not use it while it was fresh."""

    used: float = 0.0
    waited_s: float = 0.0

    def after(self, used: int, waiting: int, elapsed_ms: int) -> "Lingering":
        kept, waited = exp(-elapsed_ms / MEMORY_MS), waiting * elapsed_ms / 1_000
        return Lingering(self.used * kept + used, self.waited_s * kept + waited)

    def chance_within(self, seconds: float) -> float:
        per_second = (self.used + ASSUMED) / (self.waited_s + ASSUMED)
        return 1 - exp(-per_second * seconds)


class Limits(Struct, frozen=True):
    """How slow what serves the buyers may get before fewer are let in."""

    gate_latency_ms: float = 100.0
    settlement_lag_ms: float = 10_000.0


DEFAULT_LIMITS = Limits()


class Counts(Struct, frozen=True):
    """What people did, counted since the sale began. Someone who comes after their call lapsed counts in both."""

    passes_given: int = 0
    calls_lapsed: int = 0
    passes_used: int = 0
    # Of these, the passes that were stale.
    stale_used: int = 0
    passes_lapsed: int = 0
    units_taken: int = 0
    # Purchases that were paid, or failed for good.
    settled: int = 0


class Observation(Struct, frozen=True):
    joined: int
    # Called less than the grace time ago, and not asked for their pass yet.
    called: int
    # Given, neither used nor lapsed.
    passes: int
    available: int
    # Of the passes, those of which FRESH_PART of their life is over.
    stale: int = 0
    # Of a recent answer, or the age of the oldest command without one if that is more: a gate that stands still
    # answers nothing, and would look quick.
    gate_latency_ms: float = 0.0
    # How long the oldest payment that could be worked on has waited.
    settlement_lag_ms: float = 0.0
    counts: Counts = Counts()


class Pace(Struct, frozen=True, kw_only=True):
    """All there is to remember between two calls of `advance`; kept by the room beside the line."""

    target_per_second: float
    rate_per_second: float
    pass_seconds: float
    at: int
    serving: int = 0
    is_paused: bool = False
    # Called by hand and still to come in: not held back by the rate, but by stock.
    extra: int = 0
    credit: float = 0.0
    speed_per_second: float = 0.0
    # What there was of it in the last seconds.
    pressure: float = 0.0
    eased_at: int = 0
    # The rate that was sustained when there was too much: beyond it the way is felt for slowly.
    knee_per_second: float = inf
    # When the first was seen who bought: what is served says nothing about what could be before that was a while ago.
    bought_since: int | None = None
    bought_per_second: float = 0.0
    settled_per_second: float = 0.0
    counts: Counts = Counts()
    shows: Share = Share()
    buys: Share = Share()
    lingering: Lingering = Lingering()
    units_each: float = 1.0


class Strain(Struct, frozen=True):
    """Of whatever is worst off: how near to its limit it is (1 is at it), and how many buyers it serves per second."""

    pressure: float
    served_per_second: float


# Sets the rate from the strain, the time since the last step, and now.
Law: TypeAlias = Callable[[Pace, Strain, int, int], Pace]


def begin(target_per_second: float, pass_seconds: float, now: int, units_each: float = 1.0) -> Pace:
    """`units_each` is what one buyer may take: assumed until it is known what they do take."""
    return Pace(
        target_per_second=target_per_second,
        rate_per_second=target_per_second,
        pass_seconds=pass_seconds,
        at=now,
        units_each=units_each,
    )


def with_rate(pace: Pace, per_second: float) -> Pace:
    """The rate follows at once downwards, and by and by upwards."""
    return replace(pace, target_per_second=per_second, rate_per_second=min(pace.rate_per_second, per_second))


def paused(pace: Pace, is_paused: bool) -> Pace:
    return replace(pace, is_paused=is_paused, credit=0.0)


def let_in(pace: Pace, people: int) -> Pace:
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
    """The best that was served since trouble began: a gate that stands still says nothing about what it can do, and
    neither does one that was made slow by those who join, when hardly anybody has had the time to buy."""
    if pace.bought_since is None or now - pace.bought_since < KNEE_AFTER_MS:
        return pace.knee_per_second
    served = served_per_second / (pace.shows.value * pace.buys.value)
    return served if pace.knee_per_second == inf else max(served, pace.knee_per_second)


def advance(pace: Pace, seen: Observation, now: int, limits: Limits = DEFAULT_LIMITS, law: Law = aimd) -> Pace:
    """Its `serving` is the new cursor."""
    elapsed = min(max(now - pace.at, 0), MAX_STEP_MS)
    pace = _learn(pace, seen, now)
    strain = _strain(pace, seen, limits)
    pace = replace(pace, pressure=_eased_into(pace.pressure, strain.pressure, elapsed))
    pace = law(pace, Strain(pace.pressure, strain.served_per_second), elapsed, now)
    rate = pace.rate_per_second
    credit = 0.0 if pace.is_paused else min(pace.credit, max(1.0, rate * MAX_CREDIT_S)) + rate * elapsed / 1_000
    room = min(max(seen.joined - pace.serving, 0), room_for(pace, seen))
    by_rate = min(int(credit), room)
    by_hand = min(pace.extra, room - by_rate)
    return replace(
        pace,
        serving=pace.serving + by_rate + by_hand,
        at=max(now, pace.at),
        extra=pace.extra - by_hand,
        credit=credit - by_rate,
        speed_per_second=_smoothed(pace.speed_per_second, by_rate + by_hand, elapsed),
    )


def room_for(pace: Pace, seen: Observation) -> int:
    """How many more may be called before those inside are expected to take more than there is."""
    if seen.available <= 0:
        return 0
    buys, by_call = pace.buys.value, pace.buys.value * pace.shows.value
    lingers = min(buys, pace.lingering.chance_within(pace.pass_seconds * (1 - FRESH_PART)))
    buyers = (seen.passes - seen.stale) * buys + seen.stale * lingers + seen.called * by_call
    room = int((seen.available / pace.units_each - buyers) / by_call)
    # The last unit is for somebody, even if one buyer usually takes more, and waits for nobody who lets a pass lie.
    is_quiet = seen.passes - seen.stale + seen.called == 0
    return max(room, 1 if is_quiet else 0)


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
        units_each=max(1.0, units_each),
        bought_since=now if pace.bought_since is None and new.passes_used else pace.bought_since,
        bought_per_second=_smoothed(pace.bought_per_second, new.passes_used, elapsed),
        settled_per_second=_smoothed(pace.settled_per_second, new.settled, elapsed),
    )


def _difference(now: Counts, before: Counts) -> Counts:
    """What is new. Counts that went back (a restart, a replica) teach nothing."""
    return Counts(*(max(0, one - other) for one, other in zip(astuple(now), astuple(before), strict=True)))


def _smoothed(per_second: float, happened: int, elapsed_ms: int) -> float:
    if elapsed_ms == 0:
        return per_second
    weight = min(1.0, elapsed_ms / SPEED_WINDOW_MS)
    return per_second + (happened * 1_000 / elapsed_ms - per_second) * weight
