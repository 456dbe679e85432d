"""A sale from the first arrival to the last unit, simulated in time steps.

The model. Buyers arrive, join the queue (which takes API time and a write to one ledger row), poll `now` at the
interval they are given, and are called by the same code as in a real sale (domain/room/pace.py), which sees the
simulated state: who is inside, what is available, how slow gate and settlement are. A called buyer shows up at their
next poll, or not at all; with a pass they buy after a while, or let it expire; with a cart they pay, cancel, or abandon
it. Payments wait for a worker and succeed, or are declined and return their units; buyers poll their payment at growing
intervals, and read their order at the end. Every resource limited by hardware is a queue with a rate, and
request_scheduling.py decides which requests are answered first. Without a waiting room everyone buys at once, and
buyers who find everything held retry until their patience ends.

Why steps and not events. A million attempts per second with ten million waiting would be a hundred million events,
minutes of Python per question. Only sums over people are needed, and these move as whole numbers from stage to stage
(flows.py carries fractions over). The price is that there is no randomness: everything happens at its average rate and
time. With a hundred buyers that is rough, with ten thousand it is not. The last units, which are few in any sale, are
simulated several times with randomness (simulation_runs.py), which gives a range. A step is 0.2 s, as in the real room;
in sales of more than half an hour 1 s, the longest step that the pace supports.

The invariants, at every step: available + held + sold is the total; everyone who arrived is at exactly one stage;
nobody is called who has not joined.

When it fails. What is not modelled cannot go wrong here: networks, stalling disks, an unavailable provider. The result
follows from the figures alone; docs/PLAN.md compares it with measurements.
"""

from collections.abc import Iterator
from math import ceil, inf
from random import Random

from holdfast.domain.room.pace import FRESH_PART, Counts, Observation, advance, begin
from holdfast.domain.room.room import grace_ms
from holdfast.lab.plan.capacity import Capacity
from holdfast.lab.plan.facts import RETRY_S, Facts, Payment
from holdfast.lab.plan.figures import Figures
from holdfast.lab.plan.flows import Ages, Allowance, Delay, Share
from holdfast.lab.plan.polling import LOOKS_APART, SEEN_LATE_S, next_poll_s, payment_poll_interval_s, poll_interval_s
from holdfast.lab.plan.request_scheduling import Demand, share_time
from holdfast.lab.plan.snapshot import Snapshot

# The event loop waits for a decision twice. While it serves other requests, the gate appears slow to the pace, for as
# long as the batcher remembers the last purchase (gate/batcher.py, SLOWNESS_S).
GATE_ROUNDS, SLOWNESS_S = 2, 1.0


class Simulation:
    def __init__(self, facts: Facts, figures: Figures, capacity: Capacity, step_s: float) -> None:
        self.facts, self.figures, self.capacity, self.step_s = facts, figures, capacity, step_s
        self.step_number = 0
        self.arrived = self.joined = self.admitted = 0
        self.available, self.sold = facts.units, 0
        # Waiting for hardware: buyers, or units in the last two.
        self.joining = self.coming = self.buying = self.confirming = self.settling = 0
        # Requests: payment polls, order reads, and requests of bots.
        self.watching = self.reading = self.refusing = 0
        self.gone = 0
        self._round_s, self._asked_at_s = 0.0, -inf
        self._line = Allowance(step_s, capacity.line)
        self._gate = Allowance(step_s, capacity.gate)
        self._orders = Allowance(step_s, capacity.orders * facts.quantity)
        self._ages, self._in_line = Ages(), Ages()
        self._make_passages()
        self._make_shares()
        self.pace = begin(facts.rate_per_second, facts.pass_s, 0, facts.quantity)
        self._lapsed = self._used = self._unused = self._taken = self._settled = 0

    def _make_passages(self) -> None:
        facts, step_s = self.facts, self.step_s
        grace_s = grace_ms(int(facts.pass_s)) / 1_000
        self.looking = Delay(step_s, 0, 2 * grace_s + SEEN_LATE_S)
        self.absent = Delay(step_s, grace_s, grace_s)
        self.browsing = Delay(step_s, 0, 2 * facts.browse_s)
        self.hesitating = Delay(step_s, facts.pass_s * FRESH_PART, facts.pass_s * FRESH_PART)
        self.stale = Delay(step_s, facts.pass_s * (1 - FRESH_PART), facts.pass_s * (1 - FRESH_PART))
        self.retrying = Delay(step_s, 0.75 * RETRY_S, 1.25 * RETRY_S)
        # These count units.
        self.paying = Delay(step_s, 0, min(2 * facts.pay_s, facts.hold_s))
        self.returning = Delay(step_s, 0, min(2 * facts.pay_s, facts.hold_s))
        self.forgotten = Delay(step_s, facts.hold_s, facts.hold_s)
        self.charging = Delay(step_s, 0, 2 * facts.provider_s)

    def _make_shares(self) -> None:
        facts = self.facts
        # Buyers who take longer than the hold lasts are too late.
        in_time = min(1.0, facts.hold_s / (2 * facts.pay_s)) if facts.pay_s > 0 else 1.0
        kept = 1 - facts.abandon
        self._shows, self._buys = Share(1 - facts.no_show), Share(facts.conversion)
        self._each, self._clicks = Share(facts.quantity), Share(facts.attempts_each - 1)
        self._abandons = Share(facts.abandon + kept * (1 - in_time))
        self._gives_back = Share(facts.give_back / kept if kept else 0.0)
        self._declined = Share(facts.declines)
        self._despairs = Share(min(1.0, RETRY_S / facts.patience_s) if facts.patience_s > 0 else 1.0)
        self._bots = Share(facts.refused_each)
        self._watches = Share(0.0)
        # The share of requests answered in this step, by kind.
        self._confirmed, self._bought, self._came = Share(1.0), Share(1.0), Share(1.0)
        self._watched, self._read, self._refused, self._paid = Share(1.0), Share(1.0), Share(1.0), Share(1.0)
        self._turns = (self._confirmed, self._bought, self._came, self._watched, self._read, self._refused)

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
        """Buyers between their call and their purchase."""
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
            # Without a queue the remaining buyers still arrive and try.
            return self.facts.has_room or (self.arrived == self.facts.users and not self.buying)
        everyone_came = self.arrived == self.facts.users and not self.joining and not self.waiting
        return everyone_came and not self.inside and not self.held

    def by_chance(self, chance: Random) -> None:
        """From now on, small groups are drawn at random."""
        for part in self._parts():
            part.chance = chance

    def _parts(self) -> Iterator[Delay | Share]:
        yield from (self._shows, self._buys, self._abandons, self._gives_back, self._declined)
        yield from (one for one in vars(self).values() if isinstance(one, Delay))

    def step(self) -> Snapshot:
        self.step_number += 1
        for allowance in (self._line, self._gate, self._orders):
            allowance.renew()
        came = self._arrive()
        returned = self._carts_end()
        budget_s = self.capacity.api * self.step_s
        work_s = self._take_turns(budget_s)
        orders, more = self._settle()
        paid = self._confirm()
        attempts, grants = self._sell()
        watches, receipts = self._watch(orders)
        admissions = self._admit_those_who_came()
        joins, newcomers_s = self._welcome(budget_s - work_s)
        work_s += newcomers_s
        looks = self._call()
        if not self.facts.has_edge:
            work_s += looks * self.figures.look.seconds_each
        return Snapshot(
            self.at_s, self.arrived, self.joined, self.pace.serving, self.admitted, self.waiting, self.joining,
            self.available, self.held, self.sold, self._behind_ms(), came, joins, admissions, attempts, grants, paid,
            orders, returned + more, watches, receipts, looks, work_s,
        )  # fmt: skip

    def _arrive(self) -> int:
        came = self.facts.arrived(self.at_s) - self.arrived
        self.arrived += came
        if self.facts.has_room:
            self.joining += came
        else:
            self.buying += came
        self.refusing += self._bots.of(came)
        self.buying += self.browsing.step() + self.retrying.step()
        self.coming += self.looking.step()
        return came

    def _take_turns(self, budget_s: float) -> float:
        """Decides which requests are answered in this step; returns the time they take."""
        each_s, orders = self._settling_s(), self._buyers(self.settling)
        asked = self._asked()
        decided = share_time(asked, self._newcomers(), Demand(orders if each_s else 0, each_s), budget_s)
        for share in self._turns:
            share.part = decided.answered
        self._paid.part = decided.settled
        self._round_s = decided.round_s
        if not self.facts.has_room:
            self.refusing -= self._refused.of(self.refusing)
        return decided.answered * sum(one.work_s for one in asked) + decided.settled * orders * each_s

    def _asked(self) -> list[Demand]:
        figures, grants = self.figures, min(self.buying, self._wanted()) if self.is_open else 0
        each = [
            (ceil(self.confirming / self.facts.quantity), figures.confirm.seconds_each),
            (grants, figures.purchase.seconds_each * self.facts.attempts_each),
            (self.buying - grants if self.is_open else 0, figures.refusal.seconds_each),
            (self.coming, figures.join.seconds_each),
            (self.watching, figures.watch.seconds_each),
            (self.reading, figures.receipt.seconds_each),
            (0 if self.facts.has_room else self.refusing, figures.refusal.seconds_each),
        ]
        return [Demand(count, seconds_each) for count, seconds_each in each if count]

    def _newcomers(self) -> list[Demand]:
        """In a sale with a waiting room: joins, and bots that skip it."""
        if not self.facts.has_room:
            return []
        return [
            Demand(self.joining, self.figures.join.seconds_each),
            Demand(self.refusing, self.figures.refusal.seconds_each),
        ]

    def _settling_s(self) -> float:
        """The server time per order."""
        if not self.capacity.settles_itself or self.facts.payment is Payment.EXTERNAL:
            return 0.0
        wallet = self.facts.payment is Payment.WALLET
        return (self.figures.wallet if wallet else self.figures.card).seconds_each

    def _carts_end(self) -> int:
        self.confirming += self.paying.step()
        returned = self.returning.step() + self.forgotten.step()
        self.available += returned
        return returned

    def _settle(self) -> tuple[int, int]:
        """Returns the orders started, and the units returned by declined payments."""
        taken = self._orders.take(self._paid.of(self.settling))
        self.settling -= taken
        self._ages.take(taken)
        self.charging.put(taken)
        ended = self.charging.step()
        declined = self._declined.of(ended)
        self.available += declined
        self.sold += ended - declined
        self._settled += self._buyers(ended)
        return self._buyers(taken), declined

    def _watch(self, orders: int) -> tuple[int, int]:
        """Finished payments cause a final poll and a read of the order, the others repeated polls."""
        if self.facts.payment is Payment.EXTERNAL:
            return 0, 0
        under_way = self._buyers(self.settling + self.charging.inside)
        waited_s = self._ages.of_oldest(self.at_s) / 2
        self._watches.part = min(1.0, self.step_s / payment_poll_interval_s(waited_s))
        self.watching += self._watches.of(max(under_way - self.watching, 0)) + orders
        self.reading += orders
        watched, read = self._watched.of(self.watching), self._read.of(self.reading)
        self.watching -= watched
        self.reading -= read
        return watched, read

    def _buyers(self, units: int) -> int:
        return round(units / self.facts.quantity)

    def _confirm(self) -> int:
        """Payment takes a request and a gate decision."""
        each = self.facts.quantity
        waiting = ceil(self.confirming / each)
        buyers = self._gate.take(self._confirmed.of(waiting))
        units = self.confirming if buyers == waiting else min(int(buyers * each), self.confirming)
        self.confirming -= units
        if self.facts.payment is Payment.EXTERNAL:
            self.sold += units
            self._settled += buyers
        else:
            self._pay_for(units)
        return buyers

    def _pay_for(self, units: int) -> None:
        self.settling += units
        self._ages.put(units, self.at_s)

    def _sell(self) -> tuple[int, int]:
        """Returns the number of attempts, and of buyers who got units."""
        if not self.is_open or not self.buying:
            return 0, 0
        asked = self._bought.of(self.buying)
        self._asked_at_s = self.at_s
        wanted = min(asked, self._wanted())
        granted = self._gate.take(wanted)
        self._grant(granted)
        refused = asked - granted if granted == wanted else 0
        self.buying -= granted + refused
        lost = self._despairs.of(refused) if self.held or self.available else refused
        self.gone += lost
        self.retrying.put(refused - lost)
        return granted + refused + self._clicks.of(granted), granted

    def _grant(self, buyers: int) -> None:
        units = min(self._each.of(buyers), self.available)
        self.available -= units
        self._used += buyers
        self._taken += units
        if self.facts.is_instant:
            self._pay_for(units)
            return
        forgotten = self._abandons.of(units)
        given_back = self._gives_back.of(units - forgotten)
        self.forgotten.put(forgotten)
        self.returning.put(given_back)
        self.paying.put(units - forgotten - given_back)

    def _admit_those_who_came(self) -> int:
        """Called buyers go before newcomers."""
        if not self.facts.has_room:
            return 0
        absent = self.absent.step()
        self._lapsed += absent
        self.gone += absent
        admitted = self._line.take(self._came.of(self.coming))
        self.coming -= admitted
        self._admit(admitted)
        return admitted

    def _welcome(self, budget_s: float) -> tuple[int, float]:
        """Returns the number of joins, and the time spent on all newcomers; each kind gets the same share."""
        newcomers = self._newcomers()
        wanted_s = sum(one.work_s for one in newcomers)
        if not wanted_s or budget_s <= 0:
            return 0, 0.0
        part = min(1.0, budget_s / wanted_s)
        joins = self._line.take(int(self.joining * part))
        self.joining -= joins
        self.joined += joins
        self._in_line.put(joins, self.at_s)
        self._refused.part = part
        self.refusing -= self._refused.of(self.refusing)
        return joins, part * wanted_s

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
        """Advances the queue; returns the number of polls."""
        if not self.facts.has_room:
            return 0
        every_s = poll_interval_s(self.waiting, self.facts.pass_s)
        looks = round((self.waiting + self.looking.inside) / every_s / LOOKS_APART * self.step_s)
        now = round(self.at_s * 1_000)
        if not self.is_open:
            # The pace starts at the opening, not at the first arrival.
            self.pace = begin(self.facts.rate_per_second, self.facts.pass_s, now, self.facts.quantity)
            return looks
        before = self.pace.serving
        self.pace = advance(self.pace, self._observation(), now)
        waited_s = self._in_line.of_oldest(self.at_s)
        called = self.pace.serving - before
        self._in_line.take(called)
        self._shows.part = 1 - self.facts.no_show_after(waited_s)
        coming = self._shows.of(called)
        self.looking.put(coming, *next_poll_s(every_s, waited_s))
        self.absent.put(called - coming)
        return looks

    def _observation(self) -> Observation:
        return Observation(
            joined=self.joined,
            called=self._called,
            passes=self._passes,
            available=self.available,
            stale=self.stale.inside,
            gate_latency_ms=self._gate_ms(),
            settlement_lag_ms=1_000 * self._ages.of_oldest(self.at_s),
            counts=Counts(
                passes_given=self.admitted,
                calls_lapsed=self._lapsed,
                passes_used=self._used,
                passes_lapsed=self._unused,
                units_taken=self._taken,
                settled=self._settled,
            ),
        )

    def _gate_ms(self) -> float:
        """The latency of the gate as the pace sees it; the pace knows nothing else about the servers."""
        crowded_s = GATE_ROUNDS * self._round_s if self.at_s - self._asked_at_s < SLOWNESS_S else 0.0
        return self.figures.answer_ms + 1_000 * (min(self.buying, self._wanted()) / self.capacity.gate + crowded_s)

    def _behind_ms(self) -> float:
        """The latency of a purchase sent now."""
        return self._gate_ms() + 1_000 * self.step_s * (1 / max(self._bought.part, self.step_s / 60) - 1)

    def _wanted(self) -> int:
        """The number of buyers for whom there are units."""
        return int(-(-self.available // self.facts.quantity))
