"""The actions of a simulated buyer, and how it parses responses.

A buyer is a generator that yields actions and is sent their results. It opens no socket and reads only the clock it is
given, so a whole purchase can be tested without a server, and fifty thousand waiting buyers are fifty thousand small
frames instead of as many tasks.
"""

from collections.abc import Generator
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from holdfast.lab.load.http import Request, Response

T = TypeVar("T")


class Step(StrEnum):
    # Open the page, which reads the state of the sale.
    OPEN = "open"
    CHALLENGE = "challenge"
    JOIN = "join"
    NOW = "now"
    STATUS = "status"
    LEAVE = "leave"
    ADMISSION = "admission"
    PURCHASE = "purchase"
    CONFIRM = "confirm"
    EXTEND = "extend"
    GIVE_BACK = "give_back"
    RESERVATION = "reservation"
    ORDERS = "orders"
    CREDIT = "credit"


class Together(Struct, frozen=True):
    """Several requests at once; the result is a list of responses in the same order."""

    requests: tuple[Request, ...]


class Pause(Struct, frozen=True):
    seconds: float


class Solve(Struct, frozen=True):
    """Solve a proof-of-work challenge; the result is the proof."""

    challenge: bytes


Action = Request | Together | Pause | Solve
Script = Generator[Action, Any, T]


class Lottery(Struct, frozen=True):
    seed_hash: str
    seed: str | None = None
    entrants: int | None = None
    digest: str | None = None
    beacon: str | None = None


class BuyerOrder(Struct, frozen=True):
    order_id: str
    reservation_id: str
    status: str


class Body(Struct, frozen=True):
    """All fields that a buyer reads; each response has some of them."""

    reservation_id: str = ""
    quantity: int = 0
    amount: int = 0
    status: str | int = ""
    reason: str = ""
    next_return_at: str | None = None
    retry_after_ms: int | None = None
    ticket: str = ""
    position: int | None = None
    serving: int = 0
    pass_: str = field(default="", name="pass")
    state: str = ""
    next_poll_ms: int = 2_000
    lottery: Lottery | None = None
    data: list[BuyerOrder] = []


_decode = msgspec.json.Decoder(Body).decode


def body_of(response: Response) -> Body:
    try:
        return _decode(response.body) if response.body else Body()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Body(reason="not_json")
