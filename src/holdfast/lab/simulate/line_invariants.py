"""The invariants of a waiting room, checked after every commit and against the responses buyers got.

No place is lost or duplicated. A buyer who got their place before another one asked is ahead of them. Buyers are called
in order, no faster than the pace allows, and never beyond the end of the queue. Only called buyers get passes, and only
buyers with a pass get reservations.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator

from holdfast.domain.room.pace import MAX_CREDIT_S
from holdfast.domain.stock.outcome import Outcome
from holdfast.lab.simulate.buyers.line import Stood
from holdfast.lab.simulate.invariants import Violation

# Processes learn the ledger's time from replies, which arrive at different times.
CLOCKS_DIFFER_S = 0.5

# Arrival, buyer, ticket, place, expiry of the pass, end.
Row = tuple[int, str, str, int | None, int | None, int | None]

_LINE = """SELECT joined, serving,
  (SELECT count(*) FROM places p WHERE p.sale_id = r.sale_id AND p.left_place < r.serving) FROM rooms r"""


class LineWatch:
    """Checks the queue after every commit."""

    def __init__(self, rate_per_second: int) -> None:
        self._rate = rate_per_second
        self._joined = self._serving = 0
        # (time, number called by then), not counting buyers who had left before.
        self._called: list[tuple[float, int]] = [(0.0, 0)]

    def check(self, raw: sqlite3.Connection, now_s: float) -> Iterator[Violation]:
        for joined, serving, skipped in raw.execute(_LINE):
            if serving > joined:
                yield Violation("line", f"{serving} places were called, and {joined} have joined")
            if serving < self._serving or joined < self._joined:
                yield Violation("line", f"the line went back from {self._serving} of {self._joined} to {serving}")
            if serving != self._serving:
                yield from self._check_pace(now_s, serving - skipped)
            self._joined, self._serving = joined, serving

    def _check_pace(self, now_s: float, called: int) -> Iterator[Violation]:
        burst = max(1.0, self._rate * MAX_CREDIT_S) + 1
        for since, before in self._called:
            allowed = burst + self._rate * (now_s - since + CLOCKS_DIFFER_S)
            if called - before > allowed:
                yield Violation("pace", f"{called - before} were called from {since:.2f} s to {now_s:.2f} s")
                return
        self._called.append((now_s, called))


def check_line(raw: sqlite3.Connection, stood: Iterable[Stood]) -> Iterator[Violation]:
    told = list(stood)
    rows = list(raw.execute("SELECT arrival, buyer_id, ticket_id, place, pass_until, ended_at FROM places"))
    [(joined, serving)] = list(raw.execute("SELECT joined, serving FROM rooms")) or [(0, 0)]
    if sorted(row[0] for row in rows) != list(range(joined)):
        yield Violation("line", f"{joined} have joined, and the places are {sorted(row[0] for row in rows)}")
    for arrival, buyer_id, _, place, pass_until, _ in rows:
        if pass_until is not None and (place is None or place >= serving):
            yield Violation("line", f"{buyer_id} at {arrival} has a pass, and {serving} were called")
    yield from _check_told(told, {row[0]: row for row in rows})
    yield from _check_doubled(told, rows)
    yield from _check_order(told)
    yield from _check_buyers(raw, {row[1] for row in rows if row[4] is not None})


def _check_told(told: list[Stood], places: dict[int, Row]) -> Iterator[Violation]:
    for one in told:
        if one.answer == "defect":
            yield Violation("no_defects", f"{one.what} of {one.buyer_id} failed at {one.at_s} s")
        if one.answer not in ("place", "pass"):
            continue
        row = _place_of(one, places)
        if row is None or row[1] != one.buyer_id or (one.arrival is not None and row[2] != one.ticket_id):
            yield Violation("line", f"{one.buyer_id} was told place {one.arrival} at {one.at_s} s; it is {row}")
        elif one.answer == "pass" and row[4] is None:
            yield Violation("line", f"{one.buyer_id} was given a pass at {one.at_s} s that the ledger does not know")


def _place_of(one: Stood, places: dict[int, Row]) -> Row | None:
    """A ticket exchanged for a stamp has no arrival number here, so its place is found by the buyer."""
    if one.arrival is not None:
        return places.get(one.arrival)
    return next((row for row in places.values() if row[1] == one.buyer_id and row[4] is not None), None)


def _check_doubled(told: list[Stood], rows: list[Row]) -> Iterator[Violation]:
    """A place ends when its owner leaves, or joins again after their pass has expired."""
    left = {one.buyer_id for one in told if one.what == "leave"}
    of_buyer: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_buyer[row[1]].append(row)
    for buyer_id, theirs in of_buyer.items():
        if sum(row[5] is None for row in theirs) > 1:
            yield Violation("line", f"{buyer_id} has {len(theirs)} places at once")
        never_over = buyer_id not in left and all(row[4] is None for row in theirs)
        if len(theirs) > 1 and never_over:
            yield Violation("line", f"{buyer_id} never left, and has had {len(theirs)} places")


def _check_order(told: list[Stood]) -> Iterator[Violation]:
    joins = [one for one in told if one.what == "join"]
    left = {one.buyer_id for one in told if one.what == "leave"}
    first_asked = {one.buyer_id: one.asked_s for one in reversed(joins)}
    given = [one for one in joins if one.answer == "place" and one.arrival is not None]
    for one in given:
        for other in given:
            is_later = other.buyer_id not in left and first_asked[other.buyer_id] > one.at_s
            if is_later and (other.arrival or 0) < (one.arrival or 0):
                yield Violation(
                    "line", f"{other.buyer_id} came after {one.buyer_id} was told {one.arrival}, before them"
                )


def _check_buyers(raw: sqlite3.Connection, admitted: set[str]) -> Iterator[Violation]:
    for id_, owner_id in raw.execute("SELECT reservation_id, owner_id FROM reservations"):
        if owner_id not in admitted:
            yield Violation("line", f"{owner_id} has {id_} and was never given a pass")


def check_room_refusals(stood: Iterable[Stood], raw: sqlite3.Connection) -> Iterator[Violation]:
    """I10: no buyer was turned away while units were left."""
    [(total, sold)] = raw.execute("SELECT total, sold FROM pools")
    for one in stood:
        if one.answer == Outcome.SOLD_OUT and sold < total:
            yield Violation("I10", f"{one.buyer_id} was told sold_out at {one.at_s} s, and {total - sold} are left")
