"""Everything one simulated buyer saw, to be compared with the server's ledger at the end."""

from enum import StrEnum

from msgspec import Struct

from holdfast.lab.rush.buyers.source import Source
from holdfast.lab.scenarios.scenario import BotKind


class Ending(StrEnum):
    BOUGHT = "bought"
    DECLINED = "declined"
    ABANDONED = "abandoned"
    GAVE_BACK = "gave_back"
    # The hold expired before payment.
    TOO_LATE = "too_late"
    SOLD_OUT = "sold_out"
    # Other buyers held all units until this buyer's patience ended.
    NOTHING_FREE = "nothing_free"
    LIMIT = "limit"
    LEFT = "left"
    VANISHED = "vanished"
    MISSED_TURN = "missed_turn"
    # Refused as busy, or unanswered, until the buyer's patience ended.
    GAVE_UP = "gave_up"
    SALE_OVER = "sale_over"
    # A bot that got nothing.
    KEPT_OUT = "kept_out"
    # Still waiting or paying when the rush was stopped.
    CUT_OFF = "cut_off"


class Grant(Struct, omit_defaults=True):
    """Granted units, and the last status the server reported for them. Times are on the monotonic clock."""

    reservation_id: str
    quantity: int
    amount: int
    asked_at: float
    answered_at: float
    status: str
    expired_at: float = 0.0


class QueuePlace(Struct, omit_defaults=True):
    """A place in the queue."""

    asked_at: float
    answered_at: float
    arrival: int
    position: int | None = None
    admitted_at: float = 0.0
    is_left: bool = False
    """Whether the server acknowledged that they left."""
    entry: int | None = None
    """The row in the entry list of a lottery."""
    stamped_at: float = 0.0
    """When the buyer received a provisional ticket, if they got one before the place."""

    @property
    def joined_at(self) -> float:
        return self.stamped_at or self.answered_at


class BuyerRecord(Struct, omit_defaults=True):
    number: int
    buyer_id: str
    product: int
    bot: BotKind | None = None
    arrived_at: float = 0.0
    ended_at: float = 0.0
    ending: Ending = Ending.CUT_OFF
    places: list[QueuePlace] = []
    grants: list[Grant] = []
    sold_out_at: float = 0.0
    outcome_unknown: bool = False
    """A purchase got no response, so the ledger may hold units that the buyer does not know of."""
    credited: int = 0
    violations: list[tuple[str, str]] = []
    """Violated invariants: name and details."""
    answered_by: Source = Source.NOBODY
    """The source of the last response, which ended the visit."""
    reached_origin: bool = False
    """Whether any response came from the origin."""
