"""What goes in and out, as the contract has it. Strict: no number in quotes, no unknown field."""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, Struct
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from holdfast.domain.pool import MAX_TOTAL_UNITS, SKU_PATTERN, Availability
from holdfast.domain.reservation import DEFAULT_TTL_MS, MAX_HOLD_MS, MAX_QUANTITY, MIN_TTL_MS, Reservation, Status
from holdfast.domain.shards import MAX_SHARDS, is_shard, shard_number
from holdfast.domain.state import Event
from holdfast.http.times import rfc3339
from holdfast.ledger.queries import PoolView
from holdfast.settlement.reconcile import PoolReport

# Printable: a control character has no business in an id, and PostgreSQL cannot store all of them.
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
# The same for Python's expressions, in which `$` would let a final line break pass.
_PRINTABLE_TO_THE_END = r"^[^\x00-\x1f\x7f]+(?![\s\S])"
SkuId = Annotated[str, StringConstraints(pattern=SKU_PATTERN)]
OwnerId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
ReservationId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
RESERVATION_ID_PATTERN = r"^rsv_[0-9a-f]{32}_" + SKU_PATTERN.removeprefix("^")
TtlSeconds = Annotated[int, Field(ge=MIN_TTL_MS // 1000, le=MAX_HOLD_MS // 1000)]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class _In(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PoolIn(_In):
    total_units: int = Field(ge=0, le=MAX_TOTAL_UNITS, description="All units there are, sold and held ones included.")
    per_owner_limit: int | None = Field(
        default=None,
        ge=1,
        le=MAX_QUANTITY,
        description="Units one owner may hold or have bought; null for no limit. Left out: as it was.",
    )
    shards: int | None = Field(
        default=None,
        ge=1,
        le=MAX_SHARDS,
        description="Where Redis is the gate: how many parts the pool is split into when it is created, for more than "
        "one core can sell. Left out: one, or as many as it has. It cannot be changed.",
    )


IdempotencyKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern=_PRINTABLE_TO_THE_END,
        description="Same key, same answer, for at least 24 hours.",
    ),
]


class ReserveIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Decoded in the fast lane, by msgspec, which is as strict and takes a fraction of the time."""

    owner_id: Annotated[str, Meta(min_length=1, max_length=200, pattern=_PRINTABLE_TO_THE_END)]
    quantity: Annotated[int, Meta(ge=1, le=MAX_QUANTITY)]
    ttl_seconds: Annotated[
        int, Meta(ge=MIN_TTL_MS // 1000, le=MAX_HOLD_MS // 1000, description="How long the units are held.")
    ] = DEFAULT_TTL_MS // 1000
    idempotency_key: IdempotencyKey | None = None
    min_quantity: (
        Annotated[int, Meta(ge=1, le=MAX_QUANTITY, description="Take fewer than `quantity`, but at least this many.")]
        | None
    ) = None


class ReservationQuery(BaseModel):
    """Not strict: everything in an address is text. A filter that nobody knows would show more than was asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sku_id: SkuId | None = None
    owner_id: OwnerId | None = None
    status: Status | None = None
    limit: int = Field(default=20, ge=1, le=100)
    starting_after: Annotated[str, StringConstraints(pattern=RESERVATION_ID_PATTERN)] | None = Field(
        default=None, description="The last reservation id of the page before: this page goes on after it."
    )


class ExtendIn(_In):
    ttl_seconds: TtlSeconds = Field(description="How much longer the units are held.")


class _Out(BaseModel):
    """Describes an answer in the OpenAPI document; answers themselves are encoded directly."""


class PoolOut(_Out):
    sku_id: str
    available: int
    active_reservations: int
    held: int
    sold: int
    total_units: int
    per_owner_limit: int | None
    state: Availability
    next_return_at: Timestamp | None = Field(description="If all is held, the earliest deadline. PUT does not tell it.")


class ReservationOut(_Out):
    reservation_id: str
    sku_id: str
    owner_id: str
    quantity: int
    status: Status
    created_at: Timestamp
    expires_at: Timestamp


class ReservationPage(_Out):
    data: list[ReservationOut]
    has_more: bool


class EventOut(_Out):
    type: str
    at: Timestamp
    quantity: int | None
    expires_at: Timestamp | None
    failure_reason: str | None = Field(None, description="Why the payment was refused: insufficient_funds, …")


class HistoryOut(_Out):
    events: list[EventOut]


class HealthOut(_Out):
    status: str


class ReadyOut(HealthOut):
    """`switched_off`: features that rest under load. `not_answering`: what we depend on and do without for now."""

    switched_off: list[str]
    not_answering: list[str]


class PoolReportOut(_Out):
    """How a pool stands with the gate and the ledger. `journal_lag`: entries that the ledger does not have yet."""

    sku_id: str
    ok: bool
    finding: str | None
    checked_at: Timestamp
    total_units: int
    available: int
    held: int
    sold: int
    epoch: int
    journal_lag: int
    on_its_way: int = Field(description="Units between the shards of a pool that is split.")
    shards: list["ShardReportOut"] = Field(description="Of a pool that is split; else empty.")


class ShardReportOut(_Out):
    shard: int
    finding: str | None
    total_units: int
    available: int
    held: int
    sold: int
    epoch: int
    journal_lag: int


class ReconciliationOut(_Out):
    ok: bool
    data: list[PoolReportOut]


class InvalidFieldOut(_Out):
    field: str = Field(description="Its name, or `body` if it is about the whole.")
    message: str


class ProblemOut(_Out):
    """RFC 9457, with a stable `reason`; members that help are added (`available`, `retry_after_ms`, …)."""

    model_config = ConfigDict(title="Problem", extra="allow")

    type: str
    title: str
    status: int
    detail: str
    reason: str
    errors: list[InvalidFieldOut] = Field(default=[], description="What is wrong with the request, field by field.")


def pool_body(view: PoolView) -> dict[str, Any]:
    pool, next_return_at = view.pool, view.next_return_at
    return {
        "sku_id": pool.sku_id,
        "available": pool.available,
        "active_reservations": pool.active_reservations,
        "held": pool.held,
        "sold": pool.sold,
        "total_units": pool.total,
        "per_owner_limit": pool.rules.per_owner_limit,
        "state": pool.availability,
        "next_return_at": None if next_return_at is None else rfc3339(next_return_at),
    }


def reservation_body(reservation: Reservation) -> dict[str, Any]:
    return {
        "reservation_id": reservation.reservation_id,
        "sku_id": reservation.sku_id,
        "owner_id": reservation.owner_id,
        "quantity": reservation.quantity,
        "status": reservation.status,
        "created_at": rfc3339(reservation.created_at),
        "expires_at": rfc3339(reservation.expires_at),
    }


def report_body(report: PoolReport) -> dict[str, Any]:
    return {
        "sku_id": report.sku_id,
        "ok": report.finding is None,
        "checked_at": rfc3339(report.checked_at),
        "on_its_way": report.on_its_way,
        "shards": [{"shard": shard_number(part.sku_id)[0], **_report_counts(part)} for part in report.shards],
        **_report_counts(report),
    }


def _report_counts(report: PoolReport) -> dict[str, Any]:
    pool = report.pool
    return {
        "finding": report.finding,
        "total_units": pool.total,
        "available": pool.available,
        "held": pool.held,
        "sold": pool.sold,
        "epoch": report.ledger.at.epoch,
        "journal_lag": report.journal_lag,
    }


def reconciliation_body(reports: Iterable[PoolReport]) -> dict[str, Any]:
    data = [report_body(report) for report in reports if not is_shard(report.sku_id)]
    return {"ok": all(report["ok"] for report in data), "data": data}


def event_body(event: Event) -> dict[str, Any]:
    body = {
        "type": event.type,
        "at": rfc3339(event.at),
        "quantity": event.quantity,
        "expires_at": None if event.expires_at is None else rfc3339(event.expires_at),
    }
    return body if event.failure_reason is None else body | {"failure_reason": event.failure_reason}
