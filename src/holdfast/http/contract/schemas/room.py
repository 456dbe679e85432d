"""The waiting room: places, passes, `now`, and what operators see and change."""

from typing import Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.domain.room.room import RoomState
from holdfast.domain.sale.sale import Phase, RoomMode, Sale
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import Timestamp
from holdfast.ledger.sales.sold_out import SoldOut
from holdfast.runtime.times import rfc3339


class JoinIn(Struct, frozen=True, forbid_unknown_fields=True):
    proof: Annotated[str, Meta(max_length=8_000, description="The solved challenge, if one is required.")] | None = None
    device: (
        Annotated[
            str,
            Meta(
                min_length=16,
                max_length=128,
                pattern="^[A-Za-z0-9_-]+$",
                description="A random token stored by the browser or device; `holdfast.js` sends it.",
            ),
        ]
        | None
    ) = None


class ChallengeQuery(Struct, frozen=True):
    level: Annotated[int, Meta(ge=1, le=2, description="2: the harder one, if `proof_required` had this `level`.")] = 1


_People = Annotated[int, Meta(ge=1, le=1_000_000)]


class RoomChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Left out: unchanged."""

    rate_per_second: (
        Annotated[_People, Meta(description="People to call per second; null: the sale's own rate.")] | UnsetType | None
    ) = UNSET
    paused: Annotated[bool, Meta(description="Pause calling people. The sale itself continues.")] | UnsetType = UNSET
    beacon_value: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=500,
                description="The public value announced in `room.beacon`, once the list is closed. Final.",
            ),
        ]
        | UnsetType
    ) = UNSET
    admit: (
        Annotated[_People, Meta(description="Admit this many now, as far as there is stock, even during a pause.")]
        | UnsetType
        | None
    ) = UNSET

    def changes(self) -> dict[str, Any]:
        given: dict[str, Any] = {
            "rate_per_second": self.rate_per_second,
            "paused": self.paused,
            "beacon_value": self.beacon_value,
        }
        return {name: value for name, value in given.items() if value is not UNSET}


class LotteryQuery(Struct, frozen=True, rename={"first": "from"}):
    first: Annotated[int, Meta(ge=0, le=2**48, description="A multiple of 10,000.")] = 0


class PlaceOut(Struct, frozen=True):
    ticket: str
    position: Annotated[
        int | None, Meta(description="From 1. It is your turn when position ≤ serving. Null before a draw.")
    ]
    serving: Annotated[int, Meta(description="How many places have been called.")]
    ahead: Annotated[int | None, Meta(description="People before you who have not been called. Null before a draw.")]
    eta_seconds: Annotated[int | None, Meta(description="Null while it is unknown, or while forecasts are degraded.")]
    odds: Annotated[
        float | None,
        Meta(
            description="The chance that something is left when it is your turn, from 0 to 1. Null until it is known "
            "what ten people before did, and while degraded."
        ),
    ]
    likely_sold_out: Annotated[bool, Meta(description="Whether the chance is below 1 %. You may stay in line.")]
    degraded_features: Annotated[
        list[str], Meta(description="`odds` while the server is under pressure and makes no forecasts.")
    ]
    provisional: Annotated[
        bool,
        Meta(
            description="The ticket is a signed stamp of your arrival: your place follows from it once arrivals are "
            "merged in order. Ask for your status with it."
        ),
    ] = False


class WaitOut(Struct, frozen=True):
    position: int | None
    serving: int
    retry_after_ms: int


class PassOut(Struct, frozen=True, rename={"pass_": "pass"}):
    pass_: Annotated[str, Meta(description="A JWT, to be sent as `Holdfast-Pass` with the purchase.")]
    expires_at: Timestamp


class LotteryOut(Struct, frozen=True):
    seed_hash: str
    seed: Annotated[str, Meta(description="Set after the draw.")] | UnsetType | None = UNSET
    entrants: Annotated[int, Meta(description="Set once the list is closed.")] | UnsetType | None = UNSET
    digest: Annotated[str, Meta(description="The digest of the closed list.")] | UnsetType | None = UNSET
    beacon_source: (
        Annotated[str, Meta(description="The public value that the draw waits for, as announced beforehand.")]
        | UnsetType
        | None
    ) = UNSET
    beacon_value: Annotated[str, Meta(description="That value.")] | UnsetType | None = UNSET
    beacon: (
        Annotated[str, Meta(description="SHA-256 of the digest, a line feed, and the value or nothing.")]
        | UnsetType
        | None
    ) = UNSET
    line_id: (
        Annotated[str, Meta(description="In a drop: what tickets, entries and the draw name in place of the sale.")]
        | UnsetType
        | None
    ) = UNSET

    @classmethod
    def of(cls, sale: Sale, room: RoomState) -> "LotteryOut":
        """The seed only once nothing can depend on it any more."""
        return cls(
            room.seed_hash,
            room.seed if room.is_drawn else UNSET,
            UNSET if room.digest is None else room.entrants,
            _known(room.digest),
            _known(sale.room.beacon),
            _known(room.beacon_value),
            _known(room.beacon),
            UNSET if sale.drop_id is None else sale.line_id,
        )


def _known(value: str | None) -> str | UnsetType:
    return UNSET if value is None else value


class SoldOutOut(Struct, frozen=True):
    at: Annotated[Timestamp, Meta(description="When the last unit was paid.")]
    seconds: Annotated[float, Meta(description="The time from the opening until then.")]
    units: Annotated[int, Meta(description="How many units were sold.")]
    last_position: Annotated[
        int | None, Meta(description="The last position in line that bought. Null without a line or in a drop.")
    ]

    @classmethod
    def of(cls, story: SoldOut | None) -> "SoldOutOut | None":
        if story is None:
            return None
        return cls(rfc3339(story.at), round(story.took_ms / 1000, 1), story.units, story.last_position)


class NowOut(Struct, frozen=True):
    sale_id: str
    state: Phase
    available_hint: int | None
    next_return_at: Annotated[Timestamp | None, Meta(description="If all is held, when the next unit may come back.")]
    opens_at: Timestamp
    next_poll_ms: int
    serving: int
    joined: int
    rate_per_second: int
    lottery: Annotated[LotteryOut | None, Meta(description="Null where the order is not drawn.")]
    sold_out: Annotated[SoldOutOut | None, Meta(description="The summary of a sold-out sale. Null until then.")] = None


class PaceOut(Struct, frozen=True):
    rate_per_second: float
    speed_per_second: float
    shows: Annotated[float, Meta(description="The share of called people who request their pass.")]
    buys: Annotated[float, Meta(description="The share of passes that are used.")]
    units_each: float
    gate_latency_ms: float
    settlement_lag_ms: float
    available: int

    @classmethod
    def of(cls, room: RoomState) -> "PaceOut | None":
        if room.advancer_state is None:
            return None
        pace, seen = room.advancer_state.pace, room.advancer_state.seen
        return cls(
            round(pace.rate_per_second, 2),
            round(pace.speed_per_second, 2),
            round(pace.shows.value, 4),
            round(pace.buys.value, 4),
            round(pace.units_each, 3),
            seen.gate_latency_ms,
            seen.settlement_lag_ms,
            seen.available,
        )


class RoomFactsOut(Struct, frozen=True):
    sale_id: str
    mode: RoomMode
    opened_at: Timestamp | None
    joined: int
    serving: int
    waiting: int
    called: Annotated[int, Meta(description="Recently called, without a pass yet.")]
    passes: Annotated[int, Meta(description="Issued, neither used nor expired.")]
    rate_per_second: int
    paused: bool
    admitting: int
    passes_given: int
    passes_used: int
    passes_lapsed: int
    calls_lapsed: int
    units_taken: int
    pace: PaceOut | None
    lottery: LotteryOut

    @classmethod
    def of(cls, sale: Sale, room: RoomState, **others: Any) -> Self:
        return copy_fields(
            cls,
            room,
            sale_id=sale.sale_id,
            mode=sale.room.mode,
            rate_per_second=room.rate_per_second or sale.room.rate_per_second,
            admitting=room.admit + (0 if room.advancer_state is None else room.advancer_state.pace.extra),
            pace=PaceOut.of(room),
            lottery=LotteryOut.of(sale, room),
            **others,
        )


class KeyOut(Struct, frozen=True):
    kty: str
    crv: str
    x: str
    kid: str
    alg: str
    use: str


class JwksOut(Struct, frozen=True):
    keys: list[KeyOut]


class ChallengeFor(Struct, frozen=True):
    sale: str
    buyer: Annotated[str, Meta(description="A hash of the buyer it is for; empty if no token was sent.")]
    level: Annotated[int, Meta(description="2: the harder one.")] | UnsetType = UNSET


class ChallengeParameters(Struct, frozen=True, rename="camel"):
    """As ALTCHA's clients read it; the names are theirs."""

    algorithm: Annotated[str, Meta(examples=["PBKDF2/SHA-256"])]
    cost: Annotated[int, Meta(description="Rounds of one attempt.")]
    key_length: int
    key_prefix: Annotated[str, Meta(description="The prefix of the key whose number is sought.")]
    nonce: str
    salt: str
    key_signature: str
    expires_at: Annotated[int, Meta(description="In seconds since 1970.")]
    data: ChallengeFor


class ChallengeOut(Struct, frozen=True):
    parameters: ChallengeParameters
    signature: str

    @classmethod
    def of(cls, made: dict[str, Any]) -> "ChallengeOut":
        return msgspec.convert(made, cls)
