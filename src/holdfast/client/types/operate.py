# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `operate`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from holdfast.client.types.room import Pace
from holdfast.client.types.sales import Lottery, OversellPolicy, RoomMode

if TYPE_CHECKING:
    Pacing = Literal[
        "gate_slow", "line_empty", "not_open", "paused", "recovering", "settlement_slow", "stock", "target"
    ]
else:
    Pacing = str


class Health(Struct, frozen=True, kw_only=True):
    status: str


class Check(Struct, frozen=True, kw_only=True):
    ok: bool
    age_ms: int  # Since it last passed.
    reason: str | None = None  # Why it fails.
    pools: list[str] | None = None  # The affected items.


class Ready(Struct, frozen=True, kw_only=True):
    status: str  # `ready`, or `degraded` if some check fails but sales continue.
    checks: dict[str, Check]  # What the server can do (`selling`, `settling`, `joining`), its stores, background work.
    degraded_features: list[str]  # Features that are off under load.
    unavailable_dependencies: list[str]  # Dependencies that are unavailable.


class Feature(Struct, frozen=True, kw_only=True):
    enabled: bool
    reason: str | None = None  # Why it is off: `overload`, `host`, `lag`, or a check's.


class Features(Struct, frozen=True, kw_only=True):
    features: dict[str, Feature]  # `selling`, `settling` and `joining`, and features that are turned off under load.
    degraded_features: list[str]  # The features that are off.


class Lag(Struct, frozen=True, kw_only=True):
    items: int
    seconds: float  # The age of the oldest item.


class Lags(Struct, frozen=True, kw_only=True):
    as_of: datetime
    journal: Lag  # Decisions in Redis that the ledger does not have yet.
    settlement: Lag  # Reservations whose payment is not settled.
    webhooks: Lag  # Events and deliveries that were not sent.
    sweeper: Lag  # Holds past their deadline whose units are not back.
    streams: Lag  # Events that were not published to Kafka.


class ShardReport(Struct, frozen=True, kw_only=True):
    finding: str | None = None
    total_units: int
    available: int
    held: int
    sold: int
    epoch: int
    journal_lag: int  # Journal entries that the ledger does not have yet.
    shard: int


class PoolReport(Struct, frozen=True, kw_only=True):
    """How a pool stands with the gate and the ledger."""

    finding: str | None = None
    total_units: int
    available: int
    held: int
    sold: int
    epoch: int
    journal_lag: int  # Journal entries that the ledger does not have yet.
    sku_id: str
    ok: bool
    checked_at: datetime
    in_transfer: int  # Units in transfer between the shards of a pool that is split.
    shards: list[ShardReport]  # The shards of a split pool; else empty.


class Pools(Struct, frozen=True, kw_only=True):
    ok: bool
    data: list[PoolReport]
    locked_pools: list[str]  # Recently refused because another process or an operator holds their lock.


class PaymentFinding(Struct, frozen=True, kw_only=True):
    finding: str
    subject: str
    detail: str
    repairing: bool  # Whether it is being repaired, or waits for a person.


class PaymentReport(Struct, frozen=True, kw_only=True):
    ok: bool
    checked_at: datetime
    findings: list[PaymentFinding]
    parked: dict[str, int]


class FullReconciliation(Struct, frozen=True, kw_only=True):
    ok: bool
    data: list[PoolReport]
    payments: PaymentReport


class Tried(Struct, frozen=True, kw_only=True):
    at: datetime
    step: str
    error: str


class Parked(Struct, frozen=True, kw_only=True):
    parked_id: str
    kind: str
    reason: str | None = None
    attempts: int
    created_at: datetime
    history: list[Tried]


class ParkedPage(Struct, frozen=True, kw_only=True):
    data: list[Parked]
    has_more: bool


class Retried(Struct, frozen=True, kw_only=True):
    retried: int


class Compensation(Struct, frozen=True, kw_only=True):
    sale_id: str
    policy: OversellPolicy
    sold_units: int
    deliverable_units: int
    cancelled: list[str]  # Orders cancelled and refunded now, newest first.
    shortfall_units: int  # Units sold that have to be sourced.
    to_source: dict[str, int]  # Units to source, by order.
    needs_review: bool | None = None  # Too much to cancel without `approved`: nothing was cancelled.


class Moment(Struct, frozen=True, kw_only=True):
    at: datetime
    type: str
    what: str
    sku_id: str
    sale_id: str | None = None
    quantity: int | None = None
    reservation_id: str | None = None
    outcome: str | None = None
    available: int | None = None
    next_return_at: datetime | None = None
    request_id: str | None = None
    trace_id: str | None = None  # The ID of the request's trace, if it was traced.


class Timeline(Struct, frozen=True, kw_only=True):
    buyer_id: str
    refusals: dict[str, int]
    data: list[Moment]
    unreadable_segments: list[str]
    summary: str  # One sentence: why the buyer got none, or what they got.
    shed: dict[str, int]  # Requests of all buyers that were shed in this time, by reason. They are only counted.


class Stock(Struct, frozen=True, kw_only=True):
    """`total = available + held + settling + sold`."""

    total: int
    available: int
    held: int  # In carts: active reservations.
    settling: int  # Being paid for, parked ones included.
    sold: int


class Attempts(Struct, frozen=True, kw_only=True):
    """Of the pool, since it was made, by all server processes."""

    total: int
    granted: int
    repeated: int  # Repeats of a first result under the same idempotency key.
    refused: dict[str, int]  # By outcome.


class Returned(Struct, frozen=True, kw_only=True):
    expired: int
    cancelled: int
    failed: int


class AnswerTimes(Struct, frozen=True, kw_only=True):
    """From a command's arrival at the gate until its answer is on disk; over about the last ten seconds."""

    p50: float | None = None
    p99: float | None = None
    answers: int


class Settlement(Struct, frozen=True, kw_only=True):
    open: int
    oldest_s: float


class LiveRoom(Struct, frozen=True, kw_only=True):
    sale_id: str
    mode: RoomMode
    opened_at: datetime | None = None
    joined: int
    serving: int
    waiting: int
    called: int  # Recently called, without a pass yet.
    passes: int  # Issued, neither used nor expired.
    rate_per_second: int
    paused: bool
    admitting: int
    passes_given: int
    passes_used: int
    passes_lapsed: int
    calls_lapsed: int
    units_taken: int
    pace: Pace | None = None
    lottery: Lottery
    inside: int  # Called and expected, or with a pass that is neither used nor lapsed.
    why: Pacing  # What sets the pace of the line.


class Drift(Struct, frozen=True, kw_only=True):
    ok: bool
    finding: str | None = None
    checked_at: datetime
    journal_lag: int
    units_apart: int


class TurnedAway(Struct, frozen=True, kw_only=True):
    """By the whole server, before anything was decided."""

    shed: int
    limited: int


class Load(Struct, frozen=True, kw_only=True):
    unavailable_dependencies: list[str]
    degraded_features: list[str]
    agents_ended: list[str]
    failed_checks: dict[str, str]  # The readiness checks that fail, each with its reason.
    in_flight: int
    in_flight_max: int
