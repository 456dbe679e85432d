"""A sale from the first arrival to the last unit, simulated in steps of time.

The model. People arrive, join the line (an API process works for each, and the line is one row of the ledger), wait,
look at `now` as often as they are told, and are called by the same code that calls them in a real sale
(`domain/pace.py`), which sees what the simulation shows it: who is inside, what is available, how slow gate and
settlement are. Who was called comes when they look next, or not at all; who has a pass buys after a while, or lets it
lapse; who has a cart pays, gives it back, or lets it lapse; payments wait for a worker, succeed, or are declined and
the units return. Each place where machines work is a queue with what they can do per second; a step's work goes to
paying first, then to purchases, then to the line, as the server sheds load (http/shedding.py). Where there is no line
everyone buys at once, and whoever finds everything held asks again until their patience ends.

Why steps and not events. A million attempts per second with ten million waiting would be a hundred million events,
minutes of Python for each question. But nobody asks about one person: what is wanted are sums over people, and these
move as whole numbers from stage to stage per step (`passage.py` carries fractions on). The price is that chance is
left out: everything happens as often as it does on average, at the moment it does on average. With a hundred buyers
that is rough, with ten thousand it is not. A step is 0.2 s, as the room's own; in sales of more than half an hour 1 s,
which is the longest that the pace takes for one step.

The invariants, at every step: available + held + sold is what there was; everyone who arrived is at one stage; nobody
is called who has not joined.

When it fails. What is not modelled cannot break in here: networks, disks that stall, a provider that is away. It tells
what follows from the figures and no more, and docs/PLAN.md says how far that was from what was measured.
"""

from math import ceil

from msgspec import Struct

from holdfast.domain.pace import FRESH_PART, Counts, Observation, advance, begin
from holdfast.domain.room import grace_ms, poll_in_line_ms
from holdfast.plan.capacity import Capacity
from holdfast.plan.facts import RETRY_S, Facts, Payment
from holdfast.plan.figures import Figures
from holdfast.plan.passage import Allowance, Delay, Share

SHORT_STEP_S, LONG_STEP_S = 0.2, 1.0
LONG_SALE_S = 1_800.0
SOONEST_POLL_MS = 2_000
# What is looked at is up to a second old at the edge, half a second at the server, a quarter where it looks itself.
SEEN_LATE_S = 1.75
# Looks are between one and two intervals apart, so whoever is called looks again after 0.78 of one on average.
NEXT_LOOK = 1.55
LOOKS_APART = 1.5


class Moment(Struct, frozen=True):
    """How it stands at the end of a step, and what was done in it (`came` and all below)."""

    at_s: float
    arrived: int
    joined: int
    called: int
    admitted: int
    waiting: int
    joining: int
    """Those who could not join yet, because too many want to at once."""
    available: int
    held: int
    sold: int
    behind_ms: float
    came: int
    joins: int
    admissions: int
    attempts: int
    grants: int
    paid: int
    orders: int
    returns: int
    looks: int
    work_s: float


class Simulation:
    def __init__(self, facts: Facts, figures: Figures, capacity: Capacity, step_s: float) -> None:
        self.facts, self.figures, self.capacity, self.step_s = facts, figures, capacity, step_s
        self.step_number = 0
        self.arrived = self.joined = self.admitted = 0
        self.available, self.sold = facts.units, 0
        # Those who wait for a machine; the last two in units.
        self.joining = self.coming = self.buying = self.confirming = self.settling = 0
        self.gone = 0
        self._line = Allowance(step_s, capacity.line)
        self._gate = Allowance(step_s, capacity.gate)
        self._orders = Allowance(step_s, capacity.orders * facts.quantity)
        self._make_passages()
        self._make_shares()
        self.pace = begin(facts.rate_per_second, facts.pass_s, 0, facts.quantity)
        self._lapsed = self._used = self._unused = self._taken = self._settled = 0

    def _make_passages(self) -> None:
        facts, step_s = self.facts, self.step_s
        grace_s = grace_ms(int(facts.pass_s)) / 1_000
        self.looking = Delay(step_s, 0, grace_s + SEEN_LATE_S)
        self.absent = Delay(step_s, grace_s, grace_s)
        self.browsing = Delay(step_s, 0, 2 * facts.browse_s)
        self.hesitating = Delay(step_s, facts.pass_s * FRESH_PART, facts.pass_s * FRESH_PART)
        self.stale = Delay(step_s, facts.pass_s * (1 - FRESH_PART), facts.pass_s * (1 - FRESH_PART))
        self.retrying = Delay(step_s, 0.75 * RETRY_S, 1.25 * RETRY_S)
        # In units.
        self.paying = Delay(step_s, 0, min(2 * facts.pay_s, facts.hold_s))
        self.returning = Delay(step_s, 0, min(2 * facts.pay_s, facts.hold_s))
        self.forgotten = Delay(step_s, facts.hold_s, facts.hold_s)
        self.charging = Delay(step_s, 0, 2 * facts.provider_s)

    def _make_shares(self) -> None:
        facts = self.facts
        # Whoever thinks for longer than the hold lasts comes too late.
        in_time = min(1.0, facts.hold_s / (2 * facts.pay_s)) if facts.pay_s > 0 else 1.0
        kept = 1 - facts.abandon
        self._shows, self._buys = Share(1 - facts.no_show), Share(facts.conversion)
        self._each, self._clicks = Share(facts.quantity), Share(facts.attempts_each - 1)
        self._abandons = Share(facts.abandon + kept * (1 - in_time))
        self._gives_back = Share(facts.give_back / kept if kept else 0.0)
        self._declined = Share(facts.declines)
        self._despairs = Share(min(1.0, RETRY_S / facts.patience_s) if facts.patience_s > 0 else 1.0)

    @property
    def at_s(self) -> float:
        return self.step_number * self.step_s

    @property
    def is_open(self) -> bool:
        return self.at_s >= self.facts.opens_after_s

    @property
    def held(self) -> int:
        under_way = self.confirming + self.settling + self.charging.inside
        return self.paying.inside + self.returning.inside + self.forgotten.inside + under_way

    @property
    def waiting(self) -> int:
        return self.joined - self.pace.serving if self.facts.has_room else 0

    @property
    def inside(self) -> int:
        """People between their call and their purchase."""
        return self._called + self._passes

    @property
    def _called(self) -> int:
        return self.looking.inside + self.absent.inside + self.coming

    @property
    def _passes(self) -> int:
        return self.browsing.inside + self.hesitating.inside + self.stale.inside + self.buying + self.retrying.inside

    @property
    def is_over(self) -> bool:
        if self.sold == self.facts.units:
            # Without a line the others still come, and ask.
            return self.facts.has_room or (self.arrived == self.facts.users and not self.buying)
        everyone_came = self.arrived == self.facts.users and not self.joining and not self.waiting
        return everyone_came and not self.inside and not self.held

    def step(self) -> Moment:
        self.step_number += 1
        for allowance in (self._line, self._gate, self._orders):
            allowance.renew()
        came = self.facts.arrived(self.at_s) - self.arrived
        self.arrived += came
        if self.facts.has_room:
            self.joining += came
        else:
            self.buying += came
        returned = self._carts_end()
        orders, more = self._settle()
        work_s, paid = self._confirm(self.capacity.api * self.step_s)
        spent, attempts, grants = self._sell(self.capacity.api * self.step_s - work_s)
        work_s += spent
        spent, joins, admissions = self._serve_line(self.capacity.api * self.step_s - work_s)
        work_s += spent
        looks = self._call()
        if not self.facts.has_edge:
            work_s += looks * self.figures.look.seconds_each
        return Moment(
            self.at_s, self.arrived, self.joined, self.pace.serving, self.admitted, self.waiting, self.joining,
            self.available, self.held, self.sold, self._behind_ms(), came, joins, admissions, attempts, grants, paid,
            orders, returned + more, looks, work_s,
        )  # fmt: skip

    def _carts_end(self) -> int:
        self.confirming += self.paying.step()
        returned = self.returning.step() + self.forgotten.step()
        self.available += returned
        return returned

    def _settle(self) -> tuple[int, int]:
        """Orders taken up, and units that returned because they were declined."""
        taken = self._orders.take(self.settling)
        self.settling -= taken
        self.charging.put(taken)
        ended = self.charging.step()
        declined = self._declined.of(ended)
        self.available += declined
        self.sold += ended - declined
        self._settled += self._buyers(ended)
        return self._buyers(taken), declined

    def _buyers(self, units: int) -> int:
        return round(units / self.facts.quantity)

    def _confirm(self, budget_s: float) -> tuple[float, int]:
        """Paying is a request, and a decision of the gate."""
        cost_s, each = self.figures.purchase.seconds_each, self.facts.quantity
        waiting = ceil(self.confirming / each)
        buyers = self._gate.take(min(waiting, int(budget_s / cost_s)))
        units = self.confirming if buyers == waiting else min(int(buyers * each), self.confirming)
        self.confirming -= units
        if self.facts.payment is Payment.EXTERNAL:
            self.sold += units
            self._settled += buyers
        else:
            self.settling += units
        return buyers * cost_s, buyers

    def _sell(self, budget_s: float) -> tuple[float, int, int]:
        self.buying += self.browsing.step() + self.retrying.step()
        if not self.is_open or not self.buying:
            return 0.0, 0, 0
        wanted = min(self.buying, self._wanted())
        cost_s = self.figures.purchase.seconds_each * self.facts.attempts_each
        granted = self._gate.take(min(wanted, int(budget_s / cost_s)))
        self._grant(granted)
        left_s = budget_s - granted * cost_s
        refused = 0
        if granted == wanted:
            refused = min(self.buying - granted, int(left_s / self.figures.refusal.seconds_each))
        self.buying -= granted + refused
        lost = self._despairs.of(refused) if self.held or self.available else refused
        self.gone += lost
        self.retrying.put(refused - lost)
        attempts = granted + refused + self._clicks.of(granted)
        return granted * cost_s + refused * self.figures.refusal.seconds_each, attempts, granted

    def _grant(self, buyers: int) -> None:
        units = min(self._each.of(buyers), self.available)
        self.available -= units
        self._used += buyers
        self._taken += units
        if self.facts.is_instant:
            self.settling += units
            return
        forgotten = self._abandons.of(units)
        given_back = self._gives_back.of(units - forgotten)
        self.forgotten.put(forgotten)
        self.returning.put(given_back)
        self.paying.put(units - forgotten - given_back)

    def _serve_line(self, budget_s: float) -> tuple[float, int, int]:
        """Those whose turn it is go before those who join."""
        if not self.facts.has_room:
            return 0.0, 0, 0
        self.coming += self.looking.step()
        absent = self.absent.step()
        self._lapsed += absent
        self.gone += absent
        cost_s = self.figures.join.seconds_each
        both = min(self.coming + self.joining, int(budget_s / cost_s))
        served = self._line.take(both)
        admitted = min(served, self.coming)
        self.coming -= admitted
        self.joining -= served - admitted
        self.joined += served - admitted
        self._admit(admitted)
        return served * cost_s, served - admitted, admitted

    def _admit(self, count: int) -> None:
        self.admitted += count
        buyers = self._buys.of(count)
        self.browsing.put(buyers)
        self.hesitating.put(count - buyers)
        self.stale.put(self.hesitating.step())
        unused = self.stale.step()
        self._unused += unused
        self.gone += unused

    def _call(self) -> int:
        """Moves the line on; gives how many look at it meanwhile."""
        if not self.facts.has_room:
            return 0
        poll_s = poll_in_line_ms(SOONEST_POLL_MS, self.waiting, int(self.facts.pass_s)) / 1_000
        looks = round((self.waiting + self.looking.inside) / poll_s / LOOKS_APART * self.step_s)
        now = round(self.at_s * 1_000)
        if not self.is_open:
            # It begins to move from here, and not from the first arrival.
            self.pace = begin(self.facts.rate_per_second, self.facts.pass_s, now, self.facts.quantity)
            return looks
        before = self.pace.serving
        self.pace = advance(self.pace, self._observation(), now)
        called = self.pace.serving - before
        self._shows.part = 1 - self.facts.no_show_after(self.at_s - self.facts.came_at(before))
        coming = self._shows.of(called)
        self.looking.put(coming, poll_s * NEXT_LOOK + SEEN_LATE_S)
        self.absent.put(called - coming)
        return looks

    def _observation(self) -> Observation:
        return Observation(
            joined=self.joined,
            called=self._called,
            passes=self._passes,
            available=self.available,
            stale=self.stale.inside,
            gate_latency_ms=self._behind_ms(),
            settlement_lag_ms=1_000 * self.settling / self.facts.quantity / self.capacity.orders,
            counts=Counts(
                passes_given=self.admitted,
                calls_lapsed=self._lapsed,
                passes_used=self._used,
                passes_lapsed=self._unused,
                units_taken=self._taken,
                settled=self._settled,
            ),
        )

    def _behind_ms(self) -> float:
        """How long a purchase takes that is sent now."""
        grants = min(self.buying, self._wanted())
        refusals = self.buying - grants
        work_s = grants * self.figures.purchase.seconds_each + refusals * self.figures.refusal.seconds_each
        return self.figures.answer_ms + 1_000 * max(work_s / self.capacity.api, grants / self.capacity.gate)

    def _wanted(self) -> int:
        """Buyers for whom there is something."""
        return int(-(-self.available // self.facts.quantity))


def simulate(facts: Facts, figures: Figures, capacity: Capacity) -> list[Moment]:
    """Until everything is sold, or everyone has gone, or the sale ends."""
    if _expected_s(facts, capacity) <= LONG_SALE_S:
        moments, is_over = _run(Simulation(facts, figures, capacity, SHORT_STEP_S), 2 * LONG_SALE_S)
        if is_over:
            return moments
    return _run(Simulation(facts, figures, capacity, LONG_STEP_S), facts.opens_after_s + facts.window_s)[0]


def _run(simulation: Simulation, until_s: float) -> tuple[list[Moment], bool]:
    closes_s = simulation.facts.opens_after_s + simulation.facts.window_s
    moments = []
    while not simulation.is_over and simulation.at_s < min(until_s, closes_s):
        moments.append(simulation.step())
    return moments, simulation.is_over or simulation.at_s >= closes_s


def _expected_s(facts: Facts, capacity: Capacity) -> float:
    sold_in_s = facts.units / facts.quantity / min(facts.rate_per_second, capacity.orders)
    return max(facts.over_s, facts.opens_after_s + sold_in_s) + 3 * facts.hold_s
