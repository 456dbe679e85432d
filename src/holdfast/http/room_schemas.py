"""The waiting room, as the contract has it."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from pydantic import BaseModel, ConfigDict, Field

from holdfast.domain.room import RoomState
from holdfast.domain.sale import RoomMode, Sale
from holdfast.http.schemas import Timestamp
from holdfast.http.times import rfc3339


class JoinIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Decoded in the fast lane, by msgspec."""

    proof: Annotated[str, Meta(max_length=8_000, description="The solved challenge, where one is asked.")] | None = None


class RoomChange(BaseModel):
    """Left out: as it was."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    rate_per_second: int | None = Field(
        default=None, ge=1, le=1_000_000, description="People to call per second; null: as the sale says."
    )
    paused: bool | None = Field(default=None, description="Call nobody for now. The sale itself goes on.")
    let_in: int | None = Field(
        default=None, ge=1, le=1_000_000, description="So many at once, as far as there is stock; also during a pause."
    )


class PlaceOut(BaseModel):
    ticket: str
    position: int | None = Field(description="From 1. It is your turn when position ≤ serving. Null before a draw.")
    serving: int = Field(description="How many places have been called.")
    ahead: int | None = Field(description="People before you who have not been called. Null before a draw.")
    eta_seconds: int | None = Field(description="Null while nobody can say, or while forecasts are switched off.")
    odds: float | None = Field(
        description="The chance that something is left when it is your turn, from 0 to 1. Null while switched off."
    )
    hopeless: bool = Field(description="Whether the chance is below 1 %. You are free to stay.")
    switched_off: list[str] = Field(description="`odds` while the server is under pressure and makes no forecasts.")


class WaitOut(BaseModel):
    position: int | None
    serving: int
    retry_after_ms: int


class PassOut(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    pass_: str = Field(alias="pass", description="A JWT, to be sent as `Holdfast-Pass` with the purchase.")
    expires_at: Timestamp


class LotteryOut(BaseModel):
    seed_hash: str
    seed: str | None = Field(default=None, description="From the draw on; so are the following.")
    entrants: int | None = None
    digest: str | None = None


class PaceOut(BaseModel):
    rate_per_second: float
    speed_per_second: float
    shows: float = Field(description="The share of those called who come for their pass.")
    buys: float = Field(description="The share of passes that are used.")
    units_each: float
    gate_latency_ms: float
    settlement_lag_ms: float
    available: int


class RoomFactsOut(BaseModel):
    sale_id: str
    mode: RoomMode
    opened_at: Timestamp | None
    joined: int
    serving: int
    waiting: int
    called: int = Field(description="Called a moment ago, and not come yet.")
    passes: int = Field(description="Given, neither used nor lapsed.")
    rate_per_second: int
    paused: bool
    letting_in: int
    passes_given: int
    passes_used: int
    passes_lapsed: int
    calls_lapsed: int
    units_taken: int
    pace: PaceOut | None
    lottery: LotteryOut


class KeyOut(BaseModel):
    kty: str
    crv: str
    x: str
    kid: str
    alg: str
    use: str


class JwksOut(BaseModel):
    keys: list[KeyOut]


def lottery_body(room: RoomState) -> dict[str, Any]:
    """The seed only once nothing can depend on it any more."""
    if room.digest is None:
        return {"seed_hash": room.seed_hash}
    return {"seed_hash": room.seed_hash, "seed": room.seed, "entrants": room.entrants, "digest": room.digest}


def room_facts(sale: Sale, room: RoomState) -> dict[str, Any]:
    return {
        "sale_id": sale.sale_id,
        "mode": sale.room.mode,
        "opened_at": None if room.opened_at is None else rfc3339(room.opened_at),
        "joined": room.joined,
        "serving": room.serving,
        "waiting": room.waiting,
        "called": room.called,
        "passes": room.passes,
        "rate_per_second": room.rate_per_second or sale.room.rate_per_second,
        "paused": room.paused,
        "letting_in": room.let_in + (0 if room.ushering is None else room.ushering.pace.extra),
        "passes_given": room.passes_given,
        "passes_used": room.passes_used,
        "passes_lapsed": room.passes_lapsed,
        "calls_lapsed": room.calls_lapsed,
        "units_taken": room.units_taken,
        "pace": _pace(room),
        "lottery": lottery_body(room),
    }


def _pace(room: RoomState) -> dict[str, Any] | None:
    if room.ushering is None:
        return None
    pace, seen = room.ushering.pace, room.ushering.seen
    return {
        "rate_per_second": round(pace.rate_per_second, 2),
        "speed_per_second": round(pace.speed_per_second, 2),
        "shows": round(pace.shows.value, 4),
        "buys": round(pace.buys.value, 4),
        "units_each": round(pace.units_each, 3),
        "gate_latency_ms": seen.gate_latency_ms,
        "settlement_lag_ms": seen.settlement_lag_ms,
        "available": seen.available,
    }
