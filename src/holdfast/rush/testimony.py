"""What one simulated buyer saw, as they would swear to it. Held against the server's books in the end."""

from enum import StrEnum

from msgspec import Struct

from holdfast.rush.scenario import BotKind


class Ending(StrEnum):
    BOUGHT = "bought"
    DECLINED = "declined"
    ABANDONED = "abandoned"
    GAVE_BACK = "gave_back"
    # The hold was over before they paid.
    TOO_LATE = "too_late"
    SOLD_OUT = "sold_out"
    # Everything was held by others for as long as they had patience.
    NOTHING_FREE = "nothing_free"
    LIMIT = "limit"
    LEFT = "left"
    VANISHED = "vanished"
    MISSED_TURN = "missed_turn"
    # Told to come again until they had enough, or not answered.
    GAVE_UP = "gave_up"
    SALE_OVER = "sale_over"
    # A bot that got nothing.
    KEPT_OUT = "kept_out"
    # Their payment was still under way, or they still waited, when the rush was ended.
    CUT_OFF = "cut_off"


class Grant(Struct):
    """Units promised, and the last thing that was said of them. Times are those of one clock for all processes."""

    reservation_id: str
    quantity: int
    amount: int
    asked_at: float
    answered_at: float
    status: str
    expired_at: float = 0.0


class Standing(Struct):
    """A place in line."""

    asked_at: float
    answered_at: float
    arrival: int
    position: int | None = None
    admitted_at: float = 0.0
    is_left: bool = False
    """Whether the server said that they have left it."""


class Testimony(Struct):
    number: int
    buyer_id: str
    product: int
    bot: BotKind | None = None
    arrived_at: float = 0.0
    ended_at: float = 0.0
    ending: Ending = Ending.CUT_OFF
    places: list[Standing] = []
    grants: list[Grant] = []
    sold_out_at: float = 0.0
    unsure: bool = False
    """A purchase was sent whose answer never came, so there may be units in the books that they know nothing of."""
    credited: int = 0
    odd: list[tuple[str, str]] = []
    """What must never be: the invariant, and what was seen."""
