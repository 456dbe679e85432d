"""A line of people: what is asked of it, what it answers, and how it stands.

Places are counted from 0 here, as the lottery and the pace do; what people are told is one more (`position`). A turn
has come when place < serving, which is the same as position ≤ serving.
"""

import json
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.domain.lottery import Draw, Order
from holdfast.domain.pace import Counts, Observation, Pace

# Whoever was called has this part of a pass's life to come for it, within bounds: long enough to see one's turn at the
# next poll but one, short enough for the line to move on past those who left.
GRACE_PART = 0.25
LEAST_GRACE_MS, MOST_GRACE_MS = 1_000, 30_000
# A long line may look less often: one step more for so many who wait.
POLL_STEP_MS, WAITING_PER_STEP, LATEST_IN_LINE_MS = 500, 10_000, 10_000


def grace_ms(pass_seconds: int) -> int:
    return int(min(max(pass_seconds * 1_000 * GRACE_PART, LEAST_GRACE_MS), MOST_GRACE_MS))


def poll_in_line_ms(soonest_ms: int, waiting: int, pass_seconds: int) -> int:
    """When someone in an open line may look again. Never so rarely that a turn would be missed."""
    in_line = min(soonest_ms + max(waiting, 0) // WAITING_PER_STEP * POLL_STEP_MS, LATEST_IN_LINE_MS)
    in_time = grace_ms(pass_seconds) // 2 // POLL_STEP_MS * POLL_STEP_MS
    return max(min(in_line, in_time), POLL_STEP_MS)


class Place(Struct):
    """Someone's place in line. With a pass it says how long that is good for."""

    arrival: int
    buyer_id: str
    ticket_id: str
    joined_at: int
    place: int | None = None
    stale_at: int | None = None
    pass_until: int | None = None
    used_at: int | None = None
    ended_at: int | None = None


class Join(Struct, frozen=True):
    buyer_id: str
    # Of the ticket, if this is somebody new.
    ticket_id: str
    # The price of entry was paid before: whoever left their place needs to pay again.
    only_again: bool = False


class Admit(Struct, frozen=True):
    buyer_id: str
    arrival: int
    ticket_id: str
    pass_ms: int


class Use(Struct, frozen=True):
    """The pass was used: this buyer has reserved so many units."""

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
    # The pass is over; who joins again stands at the end.
    OVER = "over"
    # There is no such place any more, or never was.
    GONE = "gone"


class Stand(Struct, frozen=True):
    """The answer to one ask."""

    standing: Standing
    place: Place | None = None
    serving: int = 0


class Ushering(Struct, frozen=True):
    """What the usher remembers from one step to the next, and what it saw at the last."""

    pace: Pace
    seen: Observation
    # Of those who may still come: when they were called, and how far the line was then.
    calls: list[tuple[int, int]] = []
    held: int = 0
    sold: int = 0
    # All units that were ever reserved, as far as was known when that was seen.
    taken: int = 0

    def to_json(self) -> str:
        # Not by msgspec: to JSON it knows no infinity, and the knee may be there.
        return json.dumps(msgspec.to_builtins(self))

    @staticmethod
    def from_json(text: str) -> "Ushering":
        return msgspec.convert(json.loads(text), Ushering)


class RoomState(Struct, frozen=True, kw_only=True):
    sale_id: str
    seed: str
    seed_hash: str
    joined: int = 0
    serving: int = 0
    rate_per_second: int | None = None
    paused: bool = False
    let_in: int = 0
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
    reckoned_at: int = 0
    ushering: Ushering | None = None
    usher: str | None = None
    leased_until: int = 0
    fence: int = 0
    created_at: int = 0

    @property
    def waiting(self) -> int:
        return self.joined - self.serving

    @property
    def passes(self) -> int:
        return self.passes_given - self.passes_used - self.passes_lapsed

    @property
    def called(self) -> int:
        return self.serving - self.called_to - self.answered

    @property
    def is_busy(self) -> bool:
        """Whether anyone stands in line, was called, or may buy."""
        return bool(self.waiting or self.passes or self.called or self.let_in)

    @property
    def draw(self) -> Draw | None:
        """The lottery's, once it is made."""
        if self.digest is None or self.entrants is None:
            return None
        return Draw(self.sale_id, bytes.fromhex(self.seed), self.entrants, self.digest)

    def place_of(self, arrival: int) -> int:
        """From 0; the arrival itself where nothing was drawn."""
        draw = self.draw
        return arrival if draw is None else order_of(draw).place_of(arrival)

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


# An order keeps the hashes it has made, so it is worth keeping.
@lru_cache(maxsize=64)
def order_of(draw: Draw) -> Order:
    return Order(draw)
