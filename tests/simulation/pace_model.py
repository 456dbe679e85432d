"""A simulated sale with a waiting room: buyers show up, buy and pay, or do not; the gate may stall.

Time advances in steps of 100 ms. All randomness comes from the scenario's seed.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from msgspec.structs import replace

from holdfast.domain.room.pace import (
    FRESH_PART,
    LATE_MS,
    OFFERED_MAX,
    Counts,
    Law,
    Observation,
    Pace,
    advance,
    aimd,
    begin,
    room_for,
)

STEP_MS = 100


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    stock: int
    line: int
    seconds: int = 300
    target: float = 200.0
    shows: float = 0.9
    buys: float = 0.9
    # Average payment time, and the share that is declined and returns its units.
    payment_s: float = 3.0
    declines: float = 0.05
    grace_s: float = 20.0
    pass_s: float = 120.0
    # Gate decisions per second, and when it decides none.
    gate_per_second: float = 5_000.0
    stall_s: tuple[float, float] | None = None
    # Until when everybody joins, which slows the gate down even if few buy.
    joining_until_s: float = 0.0
    payments_per_second: float = 5_000.0
    # Units added later: second and number.
    restock: tuple[float, int] | None = None
    # Joins per second during the sale, after the initial `line`.
    joining_per_second: float = 0.0
    units: tuple[int, ...] = (1,)
    is_lasting: bool = field(default=False, kw_only=True)  # Whether it ends before everything is sold.


@dataclass(frozen=True)
class Moment:
    at_s: float
    serving: int
    rate: float
    inside: int
    # Without stale passes.
    offers: int
    offers_max: int
    room: int
    available: int
    sold: int
    latency_ms: float
    lag_ms: float


@dataclass
class Holder:
    """Of a pass."""

    until: int
    is_stale: bool = False
    is_gone: bool = False


class World:
    def __init__(self, scenario: Scenario, seed: int, law: Law = aimd) -> None:
        self.scenario, self.law, self.random = scenario, law, Random(seed)
        self.now = 0
        self.available, self.sold, self.held = scenario.stock, 0, 0
        self.called = self.late = self.passes = self.stale = 0
        self.tally: dict[str, int] = defaultdict(int)
        self.due: dict[int, list[Callable[[], None]]] = defaultdict(list)
        self.gate: deque[tuple[int, Callable[[], None]]] = deque()
        self.payments: deque[tuple[int, int]] = deque()
        self.pace: Pace = begin(scenario.target, scenario.pass_s, 0, max(scenario.units))
        self.moments: list[Moment] = []
        self.most_passes_beyond_stock = 0

    def run(self) -> "World":
        for _ in range(self.scenario.seconds * 1_000 // STEP_MS):
            self._step()
            if not self.scenario.is_lasting and self.held + self.available == 0 and self._is_restocked():
                break
        return self

    def _is_restocked(self) -> bool:
        return self.scenario.restock is None or self.now > self.scenario.restock[0] * 1_000

    def _step(self) -> None:
        self.now += STEP_MS
        for happening in self.due.pop(self.now, []):
            happening()
        if self.scenario.restock is not None and self.now == self.scenario.restock[0] * 1_000:
            self.available += self.scenario.restock[1]
        latency = self._work_gate()
        self._work_payments()
        seen = self._observation(latency)
        before, self.pace = self.pace, advance(self.pace, seen, self.now, law=self.law)
        on_time = replace(seen, called=seen.called - seen.late)
        room = max(room_for(self.pace, seen), room_for(self.pace, on_time))
        for _ in range(self.pace.serving - before.serving):
            self._call()
        self.moments.append(
            Moment(
                at_s=self.now / 1_000,
                serving=self.pace.serving,
                rate=self.pace.rate_per_second,
                inside=self.called + self.passes,
                offers=self.called + self.passes - self.stale,
                offers_max=int(OFFERED_MAX * max(self.available / self.pace.units_each, 1)),
                room=room + seen.called + seen.passes,
                available=self.available,
                sold=self.sold,
                latency_ms=latency,
                lag_ms=seen.settlement_lag_ms,
            )
        )

    def _observation(self, latency: float) -> Observation:
        counts = Counts(**{name: self.tally[name] for name in Counts.__struct_fields__})
        return Observation(
            joined=self.joined,
            called=self.called,
            late=self.late,
            passes=self.passes,
            available=self.available,
            stale=self.stale,
            gate_latency_ms=latency,
            settlement_lag_ms=self.now - self.payments[0][0] if self.payments else 0,
            counts=counts,
        )

    @property
    def joined(self) -> int:
        return self.scenario.line + int(self.scenario.joining_per_second * self.now / 1_000)

    def _after(self, seconds: float, happening: Callable[[], None]) -> None:
        steps = max(1, round(seconds * 1_000 / STEP_MS))
        self.due[self.now + steps * STEP_MS].append(happening)

    def _call(self) -> None:
        self.called += 1
        delay = self.random.expovariate(1 / 3)
        does_show = self.random.random() < self.scenario.shows and delay < self.scenario.grace_s
        ends = delay if does_show else self.scenario.grace_s
        if ends * 1_000 > LATE_MS:
            self._after(LATE_MS / 1_000, self._turn_late)
        self._after(ends, partial(self._answer, does_show=does_show, is_late=ends * 1_000 > LATE_MS))

    def _turn_late(self) -> None:
        self.late += 1

    def _answer(self, *, does_show: bool, is_late: bool) -> None:
        self.late -= is_late
        if does_show:
            self._give_pass()
        else:
            self._lapse_call()

    def _lapse_call(self) -> None:
        self.called -= 1
        self.tally["calls_lapsed"] += 1

    def _give_pass(self) -> None:
        self.called -= 1
        self.passes += 1
        fresh = self.passes - self.stale
        self.most_passes_beyond_stock = max(self.most_passes_beyond_stock, fresh - self.available)
        self.tally["passes_given"] += 1
        delay = self.random.expovariate(1 / 10)
        holder = Holder(self.now + round(self.scenario.pass_s * 1_000))
        self._after(self.scenario.pass_s * FRESH_PART, partial(self._turn_stale, holder))
        if self.random.random() < self.scenario.buys and delay < self.scenario.pass_s:
            self._after(delay, partial(self._ask, self.random.choice(self.scenario.units), holder))
        else:
            self._after(self.scenario.pass_s, partial(self._lapse_pass, holder))

    def _turn_stale(self, holder: Holder) -> None:
        if not holder.is_gone:
            holder.is_stale = True
            self.stale += 1

    def _leave(self, holder: Holder) -> None:
        holder.is_gone = True
        self.passes -= 1
        self.stale -= holder.is_stale

    def _lapse_pass(self, holder: Holder) -> None:
        self._leave(holder)
        self.tally["passes_lapsed"] += 1

    def _ask(self, units: int, holder: Holder) -> None:
        self.gate.append((self.now, partial(self._decide, units, holder)))

    def _decide(self, units: int, holder: Holder) -> None:
        if self.now >= holder.until:
            self._lapse_pass(holder)
        elif self.available == 0:
            # Buyers who find everything held retry while their pass is valid.
            self._after(2.0, partial(self._ask, units, holder))
        else:
            self._reserve(min(units, self.available), holder)

    def _reserve(self, units: int, holder: Holder) -> None:
        self._leave(holder)
        self.tally["stale_used"] += holder.is_stale
        self.available -= units
        self.held += units
        self.tally["passes_used"] += 1
        self.tally["units_taken"] += units
        delay = self.random.expovariate(1 / self.scenario.payment_s)
        self._after(delay, lambda: self.payments.append((self.now, units)))

    def _work_gate(self) -> float:
        """Decides as many as it can; returns how long the slowest request has waited."""
        stall = self.scenario.stall_s
        if stall is not None and stall[0] * 1_000 <= self.now < stall[1] * 1_000:
            return float(self.now - self.gate[0][0]) if self.gate else 5.0
        slowest = 400.0 if self.now < self.scenario.joining_until_s * 1_000 else 5.0
        for _ in range(int(self.scenario.gate_per_second * STEP_MS / 1_000)):
            if not self.gate:
                break
            asked_at, decide = self.gate.popleft()
            slowest = max(slowest, self.now - asked_at)
            decide()
        return slowest

    def _work_payments(self) -> None:
        for _ in range(min(len(self.payments), int(self.scenario.payments_per_second * STEP_MS / 1_000))):
            _, units = self.payments.popleft()
            self.held -= units
            self.tally["settled"] += 1
            if self.random.random() < self.scenario.declines:
                self.available += units
            else:
                self.sold += units
