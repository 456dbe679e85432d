"""What `holdfast sales create` and `holdfast drops create` have in common: their options, and how these are checked."""

from time import time
from typing import Annotated, TypeVar

import typer

from holdfast.domain.sale.sale import RoomMode
from holdfast.errors import SettingsError
from holdfast.http.contract.decoding import read_as
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.sales import RoomIn
from holdfast.runtime.times import rfc3339

T = TypeVar("T")

_ROOM = RoomIn()

StartsAt = Annotated[str | None, typer.Option(help="Such as 2030-01-31T18:00:00Z; default: now.", metavar="TIME")]
Room = Annotated[RoomMode, typer.Option(help="Waiting room: off, fifo or lottery.", metavar="MODE")]
Rate = Annotated[
    int | None,
    typer.Option(
        help=f"Buyers called from the room per second; default: {_ROOM.rate_per_second}.",
        min=1,
        max=1_000_000,
        metavar="N",
    ),
]
PassSeconds = Annotated[
    int | None,
    typer.Option(
        help=f"Seconds a called buyer has to buy; default: {_ROOM.pass_seconds}.", min=1, max=86_400, metavar="N"
    ),
]


def start_of(starts_at: str | None) -> str:
    return starts_at or rfc3339(int(time() * 1000))


def room_of(mode: RoomMode, rate: int | None, pass_seconds: int | None) -> dict[str, object]:
    given = {"rate_per_second": rate, "pass_seconds": pass_seconds}
    chosen = {name: value for name, value in given.items() if value is not None}
    if chosen and mode is RoomMode.OFF:
        raise SettingsError("--rate and --pass-seconds are for a waiting room: add --room fifo or --room lottery")
    return {"mode": mode.value, **chosen}


def checked_as(schema: type[T], **given: object) -> T:
    """By the rules of the API."""
    try:
        checked: T = read_as(schema, given)
    except Problem as problem:
        raise SettingsError(problem.detail) from problem
    return checked
