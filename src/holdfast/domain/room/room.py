"""A waiting line: its requests, its answers and its state.

Places count from 0 here, as in the lottery and the pace. The position shown to people is one more. It is a person's
turn when place < serving, which is the same as position ≤ serving.
"""

import json
from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.domain.room.lottery import NO_LEAVERS, SEED_BYTES, Draw, Leavers, Order
from holdfast.domain.room.pace import Counts, Observation, Pace

# A called person has this part of a pass's life to request it, within bounds: long enough to notice the turn at the
# second poll, short enough for the line to move past people who left.
GRACE_PART = 0.25
LEAST_GRACE_MS, MOST_GRACE_MS = 1_000, 30_000
# People in a long line poll less often: one more step per this many waiting.
POLL_STEP_MS, WAITING_PER_STEP, LATEST_IN_LINE_MS = 500, 10_000, 10_000
# How often a buyer may join again after leaving one queue. People change their mind once or twice; every place that is
# taken and left costs a few rows.
REJOINS_MAX = 10


def grace_ms(pass_seconds: int) -> int:
    return int(min(max(pass_seconds * 1_000 * GRACE_PART, LEAST_GRACE_MS), MOST_GRACE_MS))


def poll_in_line_ms(soonest_ms: int, waiting: int, pass_seconds: int) -> int:
    """The polling interval in an open line. Always short enough not to miss a turn."""
    in_line = min(soonest_ms + max(waiting, 0) // WAITING_PER_STEP * POLL_STEP_MS, LATEST_IN_LINE_MS)
    in_time = grace_ms(pass_seconds) // 2 // POLL_STEP_MS * POLL_STEP_MS
    return max(min(in_line, in_time), POLL_STEP_MS)


class Place(Struct):
    """A place in line, and the validity of its pass, if any."""

    arrival: int
    buyer_id: str
    ticket_id: str
    joined_at: int
    place: int | None = None
    stale_at: int | None = None
    pass_until: int | None = None
    used_at: int | None = None
    ended_at: int | None = None
    # Left before it was called: the place in the order that is skipped.
    left_place: int | None = None
    # When the request reached the server's socket. None in places of earlier releases.
    arrived_at: int | None = None
    # When the arrival was staged, if it was merged rather than joined at once.
    staged_at: int | None = None


class Join(Struct, frozen=True):
    buyer_id: str
    # The ticket's ID if the buyer is new.
    ticket_id: str
    # The proof of work was spent before: valid only for a buyer who still has their place.
    only_again: bool = False
    # When the request reached the server's socket; None: now.
    arrived_at: int | None = None
    # For an arrival that is merged: when it was staged.
    staged_at: int | None = None
    # For a provisional ticket, which gives one place: none after that was left, or its pass expired.
    once: bool = False


class Admit(Struct, frozen=True):
    buyer_id: str
    arrival: int
    ticket_id: str
    pass_ms: int


class Use(Struct, frozen=True):
    """The pass was used: this buyer has reserved `units` units."""

    buyer_id: str
    units: int


class Leave(Struct, frozen=True):
    buyer_id: str
    arrival: int
    ticket_id: str


RoomAsk: TypeAlias = Join | Admit | Use | Leave


class Standing(StrEnum):
    WAITING = "waiting"
    ADMITTED = "admitted"
    # The pass has expired. Joining again means the end of the line.
    OVER = "over"
    # The place does not exist, or not any more.
    GONE = "gone"
    # No place: the provisional ticket gave one before, and its buyer left it or has joined again.
    USED = "used"
    # No place: the buyer left this queue too often.
    LEFT_TOO_OFTEN = "left_too_often"
    # No place yet: earlier arrivals are to be merged first.
    MERGING = "merging"


class Arrival(Struct, frozen=True):
    """Somebody who arrived while the store did not take joins: a provisional ticket, without its signature."""

    sale_id: str
    buyer_id: str
    ticket_id: str
    arrived_at: int
    # The process that stamped it, and its count: the order of arrivals in the same millisecond.
    node: str
    sequence: int
    # Gets no place before a lottery is drawn, or a sale opens.
    is_last: bool = False


class Stand(Struct, frozen=True):
    """The answer to one request."""

    standing: Standing
    place: Place | None = None
    serving: int = 0
    # How many are in line and not called, this buyer included.
    waiting: int = 0


class AdvancerState(Struct, frozen=True):
    """The line advancer's state between two steps, and its last observation."""

    pace: Pace
    seen: Observation
    # Calls that may still be answered: when, and the value of `serving` after each.
    calls: list[tuple[int, int]] = []
    held: int = 0
    sold: int = 0
    # All units ever reserved, as of the observation.
    taken: int = 0

    def to_json(self) -> str:
        # Not with msgspec: its JSON has no infinity, which is the default of the knee.
        return json.dumps(msgspec.to_builtins(self))

    @staticmethod
    def from_json(text: str) -> "AdvancerState":
        return msgspec.convert(json.loads(text), AdvancerState)


class RoomState(Struct, frozen=True, kw_only=True):
    sale_id: str
    seed: str
    seed_hash: str
    joined: int = 0
    serving: int = 0
    rate_per_second: int | None = None
    paused: bool = False
    admit: int = 0
    entrants: int | None = None
    digest: str | None = None
    opened_at: int | None = None
    passes_given: int = 0
    passes_used: int = 0
    stale_used: int = 0
    units_taken: int = 0
    passes_lapsed: int = 0
    passes_stale: int = 0
    calls_lapsed: int = 0
    called_to: int = 0
    answered: int = 0
    left: int = 0
    leaves: int = 0
    unlisted: int = 0
    pruned: int = 0
    mode: str | None = None
    beacon: str | None = None
    beacon_value: str | None = None
    counted_at: int = 0
    advancer_state: AdvancerState | None = None
    advancer: str | None = None
    leased_until: int = 0
    fence: int = 0
    created_at: int = 0
    # Not columns: who left before the list was closed; and in a server's snapshot the next places to be skipped, and
    # the tickets of those who left with a pass that has not expired.
    leavers: Leavers = NO_LEAVERS
    left_places: Sequence[int] = ()
    returned_passes: frozenset[str] = frozenset()

    @property
    def line_end(self) -> int:
        """The place of the next buyer who joins."""
        return self.joined - self.unlisted

    @property
    def waiting(self) -> int:
        return self.line_end - self.serving - self.left

    def ahead_of(self, place: int) -> int:
        """The people before a place who have not been called: exact if `left_places` has all places up to this one,
        otherwise not too few."""
        skipped = bisect_left(self.left_places, place) - bisect_left(self.left_places, self.serving)
        ahead = max(place - self.serving - max(skipped, 0), 0)
        return min(ahead, max(self.waiting - 1, 0)) if place < self.line_end else ahead

    @property
    def passes(self) -> int:
        return self.passes_given - self.passes_used - self.passes_lapsed

    @property
    def called(self) -> int:
        return self.serving - self.called_to - self.answered

    @property
    def is_busy(self) -> bool:
        """Whether anyone is waiting, called, or allowed to buy."""
        return bool(self.waiting or self.passes or self.called or self.admit)

    @property
    def draw(self) -> Draw | None:
        """The lottery's draw, or None before it took place."""
        if self.digest is None or self.entrants is None or not self.is_drawn:
            return None
        return Draw(self.sale_id, bytes.fromhex(self.seed), self.entrants, self.digest, self.beacon or "")

    @property
    def is_drawn(self) -> bool:
        """The seed is sealed until then."""
        return self.digest is not None and len(self.seed) == 2 * SEED_BYTES

    def place_of(self, arrival: int) -> int:
        """Counted from 0. Without a draw it is the arrival number."""
        draw = self.draw
        return arrival if draw is None else order_of(draw).place_of(self.leavers.number_of(arrival))

    def turn_of(self, arrival: int) -> int | None:
        """As `place_of`, or None while the list is closed and not drawn."""
        return None if self.entrants is not None and not self.is_drawn else self.place_of(arrival)

    def counts(self, settled: int) -> Counts:
        return Counts(
            passes_given=self.passes_given,
            calls_lapsed=self.calls_lapsed,
            passes_used=self.passes_used,
            stale_used=self.stale_used,
            passes_lapsed=self.passes_lapsed,
            units_taken=self.units_taken,
            settled=settled,
        )


# Cached because an order caches its hashes.
@lru_cache(maxsize=64)
def order_of(draw: Draw) -> Order:
    return Order(draw)
