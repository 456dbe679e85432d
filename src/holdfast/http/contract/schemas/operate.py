"""Operating: health, keys, sessions, the audit, and a sale while it sells."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.audit.ask import Timeline
from holdfast.audit.timeline import Moment
from holdfast.bootstrap.lag import Lags
from holdfast.domain.room.pacing import Pacing
from holdfast.gate.lag import Lag
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.room import RoomFactsOut
from holdfast.http.contract.schemas.sales import OperatorSaleOut
from holdfast.http.contract.schemas.values import PRINTABLE, AnyId, OwnerId, SkuId, Timestamp
from holdfast.ledger.access.console_sessions import Session
from holdfast.ledger.access.keys import Scope, ServiceKey
from holdfast.ledger.access.operators import Role
from holdfast.runtime.readiness import Check
from holdfast.runtime.times import rfc3339


class HealthOut(Struct, frozen=True):
    status: str


class CheckOut(Struct, frozen=True, omit_defaults=True):
    ok: bool
    age_ms: Annotated[int, Meta(description="Since it last passed.")]
    reason: Annotated[str | None, Meta(description="Why it fails.")] = None
    pools: Annotated[list[str], Meta(description="The affected items.")] = []

    @classmethod
    def of(cls, check: Check) -> "CheckOut":
        return cls(check.ok, check.age_ms, check.reason)


class ReadyOut(Struct, frozen=True):
    status: Annotated[str, Meta(description="`ready`, or `degraded` if some check fails but sales continue.")]
    checks: Annotated[
        dict[str, CheckOut],
        Meta(description="What the server can do (`selling`, `settling`, `joining`), its stores, background work."),
    ]
    degraded_features: Annotated[list[str], Meta(description="Features that are off under load.")]
    unavailable_dependencies: Annotated[list[str], Meta(description="Dependencies that are unavailable.")]


class DisabledOut(Struct, frozen=True):
    """Instead of what was asked for, while the server has hardly any CPU or memory left for it."""

    disabled: bool = True


class FeatureOut(Struct, frozen=True, omit_defaults=True):
    enabled: bool
    reason: Annotated[str | None, Meta(description="Why it is off: `overload`, `host`, `lag`, or a check's.")] = None


class FeaturesOut(Struct, frozen=True):
    features: Annotated[
        dict[str, FeatureOut],
        Meta(description="`selling`, `settling` and `joining`, and features that are turned off under load."),
    ]
    degraded_features: Annotated[list[str], Meta(description="The features that are off.")]


class LagOut(Struct, frozen=True):
    items: int
    seconds: Annotated[float, Meta(description="The age of the oldest item.")]

    @classmethod
    def of(cls, lag: Lag) -> "LagOut":
        return cls(lag.items, round(lag.seconds, 3))


class LagsOut(Struct, frozen=True):
    as_of: Timestamp
    journal: Annotated[LagOut, Meta(description="Decisions in Redis that the ledger does not have yet.")]
    settlement: Annotated[LagOut, Meta(description="Reservations whose payment is not settled.")]
    webhooks: Annotated[LagOut, Meta(description="Events and deliveries that were not sent.")]
    sweeper: Annotated[LagOut, Meta(description="Holds past their deadline whose units are not back.")]
    streams: Annotated[LagOut, Meta(description="Events that were not published to Kafka.")]

    @classmethod
    def of(cls, lags: Lags) -> "LagsOut":
        kinds = (lags.journal, lags.settlement, lags.webhooks, lags.sweeper, lags.streams)
        return cls(rfc3339(lags.as_of), *map(LagOut.of, kinds))


class SessionOut(Struct, frozen=True):
    key_id: Annotated[str | None, Meta(description="Null for the admin key.")]
    name: str | None
    scopes: list[Scope]
    expires_at: Annotated[Timestamp | None, Meta(description="Null if a service key was sent instead.")]
    operator_id: Annotated[str | None, Meta(description="Null for keys.")] = None
    role: Role | None = None

    @classmethod
    def of(cls, session: Session) -> "SessionOut":
        return copy_fields(cls, session, scopes=sorted(session.scopes))


class KeyIn(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            pattern=PRINTABLE,
            description="What the key is for.",
            examples=["checkout"],
        ),
    ]
    scopes: Annotated[
        list[Scope], Meta(min_length=1, max_length=len(Scope), description="Only scopes that the caller has.")
    ]


class ServiceKeyOut(Struct, frozen=True):
    key_id: str
    name: str
    scopes: list[Scope]
    created_at: Timestamp
    revoked_at: Timestamp | None
    created_by: Annotated[str | None, Meta(description="The key that created it; revoking it revokes this one.")]

    @classmethod
    def of(cls, key: ServiceKey) -> "ServiceKeyOut":
        return copy_fields(cls, key, scopes=sorted(key.scopes))


class NewServiceKeyOut(ServiceKeyOut, frozen=True):
    key: Annotated[str, Meta(description="The key itself. Shown only once.")]

    @classmethod
    def of_new(cls, made: ServiceKey, key: str) -> "NewServiceKeyOut":
        return copy_fields(cls, made, scopes=sorted(made.scopes), key=key)


class ServiceKeyList(Struct, frozen=True):
    data: list[ServiceKeyOut]


class AuditQuery(Struct, frozen=True):
    buyer_id: OwnerId
    sale_id: AnyId | None = None
    sku_id: SkuId | None = None
    since: Annotated[str, Meta(description="RFC 3339")] | None = None
    until: Annotated[str, Meta(description="RFC 3339")] | None = None
    limit: Annotated[int, Meta(ge=1, le=5_000)] = 500


class MomentOut(Struct, frozen=True):
    at: Timestamp
    type: str
    what: str
    sku_id: str
    sale_id: str | None
    quantity: int | None
    reservation_id: str | None
    outcome: str | None
    available: int | None
    next_return_at: Timestamp | None
    request_id: str | None
    trace_id: Annotated[str | None, Meta(description="The ID of the request's trace, if it was traced.")]

    @classmethod
    def of(cls, moment: Moment) -> "MomentOut":
        return copy_fields(cls, moment)


class TimelineOut(Struct, frozen=True):
    buyer_id: str
    refusals: dict[str, int]
    data: list[MomentOut]
    unreadable_segments: list[str]
    summary: Annotated[str, Meta(description="One sentence: why the buyer got none, or what they got.")]
    shed: Annotated[
        dict[str, int],
        Meta(description="Requests of all buyers that were shed in this time, by reason. They are only counted."),
    ]

    @classmethod
    def of(cls, timeline: Timeline) -> "TimelineOut":
        data = [MomentOut.of(moment) for moment in timeline.moments]
        facts = (timeline.owner_id, timeline.refusals, data, timeline.unreadable)
        return cls(*facts, timeline.summary, timeline.shed)


class DependencyOut(Struct, frozen=True):
    name: str
    kind: Annotated[str, Meta(description="`capability`, `store`, `gate`, `payment` or `agent`.")]
    ok: bool
    detail: str
    age_ms: Annotated[int | None, Meta(description="Since it was last known to work.")] = None


class LoadOut(Struct, frozen=True):
    unavailable_dependencies: list[str]
    degraded_features: list[str]
    agents_ended: list[str]
    failed_checks: Annotated[dict[str, str], Meta(description="The readiness checks that fail, each with its reason.")]
    in_flight: int
    in_flight_max: int


class FunnelStepOut(Struct, frozen=True):
    step: Annotated[str, Meta(description="`view`, `join`, `pass`, `attempt` or `pay`.")]
    clicks: Annotated[int, Meta(description="How often, signed in or not.")]
    people: Annotated[int, Meta(description="Signed-in visitors who reached this step or a later one.")]
    stopped: Annotated[int, Meta(description="Visitors who stopped at this step.")]


class FunnelRefusalOut(Struct, frozen=True):
    step: str
    reason: str
    clicks: int
    people: int


class FunnelOut(Struct, frozen=True):
    sale_id: str
    enabled: Annotated[bool, Meta(description="Whether this host keeps files of the click stream.")]
    steps: list[FunnelStepOut]
    refusals: Annotated[list[FunnelRefusalOut], Meta(description="The most frequent ones, with the refused step.")]


class SystemHealthOut(Struct, frozen=True):
    """Of the process that answers; others may see it differently."""

    ok: bool
    version: str
    data: list[DependencyOut]
    load: LoadOut
    parked: Annotated[dict[str, int], Meta(description="By kind; empty if the store cannot be read.")]


class StockOut(Struct, frozen=True):
    """`total = available + held + settling + sold`."""

    total: int
    available: int
    held: Annotated[int, Meta(description="In carts: active reservations.")]
    settling: Annotated[int, Meta(description="Being paid for, parked ones included.")]
    sold: int


class AttemptsOut(Struct, frozen=True):
    """Of the pool, since it was made, by all server processes."""

    total: int
    granted: int
    repeated: Annotated[int, Meta(description="Repeats of a first result under the same idempotency key.")]
    refused: Annotated[dict[str, int], Meta(description="By outcome.")]


class ReturnedOut(Struct, frozen=True):
    expired: int
    cancelled: int
    failed: int


class AnswerTimesOut(Struct, frozen=True):
    """From a command's arrival at the gate until its answer is on disk; over about the last ten seconds."""

    p50: float | None
    p99: float | None
    answers: int


class SettlementOut(Struct, frozen=True):
    open: int
    oldest_s: float


class LiveRoomOut(RoomFactsOut, frozen=True):
    inside: Annotated[int, Meta(description="Called and expected, or with a pass that is neither used nor lapsed.")]
    why: Annotated[Pacing, Meta(description="What sets the pace of the line.")]


class DriftOut(Struct, frozen=True):
    ok: bool
    finding: str | None
    checked_at: Timestamp
    journal_lag: int
    units_apart: int


class TurnedAwayOut(Struct, frozen=True):
    """By the whole server, before anything was decided."""

    shed: int
    limited: int


class LiveOut(Struct, frozen=True):
    as_of: Annotated[Timestamp, Meta(description="When the figures were read, by the engine's clock.")]
    sale: OperatorSaleOut
    stock: StockOut | None
    next_return_at: Timestamp | None
    attempts: AttemptsOut
    returned_units: ReturnedOut
    answer_ms: AnswerTimesOut
    settlement: SettlementOut
    room: LiveRoomOut | None
    parked: Annotated[dict[str, int], Meta(description="By kind, of all sales.")]
    drift: Annotated[DriftOut | None, Meta(description="Null where this process does no background work.")]
    turned_away: TurnedAwayOut
    health: LoadOut


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    window_seconds: (
        Annotated[int, Meta(ge=10, le=7_776_000, description="Only the last this many seconds; omitted: all.")] | None
    ) = None


class HistoryRoomOut(Struct, frozen=True):
    joined: int
    serving: int
    inside: int


class HistoryPointOut(Struct, frozen=True):
    """Counts of a span of time, and the highest levels in it. A span in which nothing happened is left out."""

    at: Annotated[Timestamp, Meta(description="The start of the span.")]
    seconds: Annotated[int, Meta(description="The length of the span.")]
    attempts: AttemptsOut
    returned_units: ReturnedOut
    turned_away: TurnedAwayOut
    answer_ms: AnswerTimesOut
    room: HistoryRoomOut | None
    settlement: SettlementOut


class SaleMarkOut(Struct, frozen=True):
    at: Timestamp
    kind: Annotated[
        str,
        Meta(
            description="`opened`, `closed`, `paused`, `resumed`, `restocked`, `changed`, `rate_changed`, "
            "`line_paused`, `line_resumed` or `admitted`."
        ),
    ]
    by: Annotated[str | None, Meta(description="The operator or key; null: by schedule, or from the command line.")]
    detail: str | None


class SaleHistoryOut(Struct, frozen=True):
    sale_id: str
    as_of: Timestamp
    since: Timestamp
    seconds: Annotated[int, Meta(description="The length of a span, unless it has its own.")]
    points: list[HistoryPointOut]
    marks: Annotated[list[SaleMarkOut], Meta(description="Operators' actions on the sale.")]
