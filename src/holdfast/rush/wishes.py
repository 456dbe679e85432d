"""What a simulated buyer wants next, and what comes back.

A buyer is a generator that yields wishes and is sent what became of them. It opens no socket and reads no clock but the
one it is given, so a whole purchase can be tried without a server; and fifty thousand of them, waiting, are fifty
thousand small frames and not as many tasks.
"""

from collections.abc import Generator
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

T = TypeVar("T")


class Step(StrEnum):
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


class Ask(Struct, frozen=True):
    """One request. With `hang_up_s` the caller leaves that long after sending it, and never hears the answer."""

    step: Step
    method: str
    path: str
    headers: bytes = b""
    body: bytes = b""
    hang_up_s: float | None = None


class Together(Struct, frozen=True):
    """Several at once; what comes back is a list, in the same order."""

    asks: tuple[Ask, ...]


class Pause(Struct, frozen=True):
    seconds: float


class Solve(Struct, frozen=True):
    """Do the work of a challenge; what comes back is the proof."""

    challenge: bytes


class Answer(Struct, frozen=True):
    """Status 0: none came. `due_at` is when it was wanted, which is where its latency begins."""

    status: int
    body: bytes = b""
    due_at: float = 0.0
    at: float = 0.0
    retry_after_s: float | None = None

    def told(self) -> "Told":
        try:
            return _decode(self.body) if self.body else Told()
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Told(reason="not_json")


Wish = Ask | Together | Pause | Solve
Script = Generator[Wish, Any, T]


class Lottery(Struct, frozen=True):
    seed_hash: str
    seed: str | None = None
    entrants: int | None = None
    digest: str | None = None


class OrderTold(Struct, frozen=True):
    order_id: str
    reservation_id: str
    status: str


class Told(Struct, frozen=True):
    """Whatever of these an answer has."""

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
    data: list[OrderTold] = []


_decode = msgspec.json.Decoder(Told).decode
