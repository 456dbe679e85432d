"""Pools, and reservations from them."""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.domain.stock.limits import DEFAULT_TTL_MS, MAX_QUANTITY, MAX_TOTAL_UNITS
from holdfast.domain.stock.pool import Availability
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.shards import MAX_SHARDS, is_shard, shard_number
from holdfast.domain.stock.state import Event
from holdfast.gate.audit import PoolReport
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import (
    IdempotencyKey,
    Limit,
    MinQuantity,
    OwnerId,
    Quantity,
    ReservationId,
    SkuId,
    Timestamp,
    TtlSeconds,
)
from holdfast.ledger.stock.queries import PoolView
from holdfast.runtime.times import optional_rfc3339, rfc3339


class PoolIn(Struct, frozen=True, forbid_unknown_fields=True):
    total_units: Annotated[int, Meta(ge=0, le=MAX_TOTAL_UNITS, description="All units, including sold and held ones.")]
    per_owner_limit: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_QUANTITY,
                description="Units one owner may hold or have bought; null for no limit. Left out: unchanged.",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    shards: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_SHARDS,
                description="Where Redis is the gate: how many parts the pool is split into when it is created, to "
                "sell faster than one core can. Left out: one, or as many as it has. It cannot be changed.",
            ),
        ]
        | None
    ) = None


class ReserveIn(Struct, frozen=True, forbid_unknown_fields=True):
    owner_id: OwnerId
    quantity: Quantity
    ttl_seconds: Annotated[TtlSeconds, Meta(description="How long the units are held.")] = DEFAULT_TTL_MS // 1000
    idempotency_key: IdempotencyKey | None = None
    min_quantity: MinQuantity | None = None
    tier: Annotated[int, Meta(ge=0, le=1_000_000, description="The owner's tier, where a sale requires one.")] = 0


class ExtendIn(Struct, frozen=True, forbid_unknown_fields=True):
    ttl_seconds: Annotated[TtlSeconds, Meta(description="How much longer the units are held.")]


class ReservationQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """An unknown filter is refused: ignoring it would show more than was asked for."""

    sku_id: SkuId | None = None
    owner_id: OwnerId | None = None
    status: Status | None = None
    limit: Limit = 20
    starting_after: Annotated[ReservationId, Meta(description="The last ID of the previous page.")] | None = None


class WaitQuery(Struct, frozen=True):
    wait: (
        Annotated[
            int,
            Meta(ge=1, le=30, description="Respond when it changes, or after this many seconds (long polling)."),
        ]
        | None
    ) = None


class PoolOut(Struct, frozen=True):
    sku_id: str
    available: int
    active_reservations: int
    held: int
    sold: int
    total_units: int
    per_owner_limit: int | None
    state: Availability
    next_return_at: Annotated[
        Timestamp | None, Meta(description="If all units are held, the earliest deadline. Not in responses to PUT.")
    ]

    @classmethod
    def of(cls, view: PoolView) -> "PoolOut":
        pool = view.pool
        return cls(
            pool.sku_id,
            pool.available,
            pool.active_reservations,
            pool.held,
            pool.sold,
            pool.total,
            pool.rules.per_owner_limit,
            pool.availability,
            optional_rfc3339(view.next_return_at),
        )


class ReservationOut(Struct, frozen=True, gc=False):
    reservation_id: str
    sku_id: str
    owner_id: str
    quantity: int
    status: Status
    created_at: Timestamp
    expires_at: Timestamp
    confirmed_at: Timestamp | None

    @classmethod
    def of(cls, r: Reservation) -> "ReservationOut":
        return cls(
            r.reservation_id,
            r.sku_id,
            r.owner_id,
            r.quantity,
            r.status,
            rfc3339(r.created_at),
            rfc3339(r.expires_at),
            None if r.confirmed_at is None else rfc3339(r.confirmed_at),
        )


class EventOut(Struct, frozen=True):
    type: str
    at: Timestamp
    quantity: int | None
    expires_at: Timestamp | None
    failure_reason: (
        Annotated[str, Meta(description="Why the payment was refused: insufficient_funds, …")] | UnsetType
    ) = UNSET

    @classmethod
    def of(cls, event: Event) -> "EventOut":
        return copy_fields(cls, event, failure_reason=UNSET if event.failure_reason is None else event.failure_reason)


class HistoryOut(Struct, frozen=True):
    events: list[EventOut]
    trace_id: Annotated[str | None, Meta(description="The trace of its last traced request.")] = None


class _Counts(Struct, frozen=True, kw_only=True):
    finding: str | None
    total_units: int
    available: int
    held: int
    sold: int
    epoch: int
    journal_lag: Annotated[int, Meta(description="Journal entries that the ledger does not have yet.")]


class ShardReportOut(_Counts, frozen=True, kw_only=True):
    shard: int

    @classmethod
    def of(cls, part: PoolReport) -> "ShardReportOut":
        return cls(shard=shard_number(part.sku_id)[0] or 0, **_counts(part))


class PoolReportOut(_Counts, frozen=True, kw_only=True):
    """How a pool stands with the gate and the ledger."""

    sku_id: str
    ok: bool
    checked_at: Timestamp
    in_transfer: Annotated[int, Meta(description="Units in transfer between the shards of a pool that is split.")]
    shards: Annotated[list[ShardReportOut], Meta(description="The shards of a split pool; else empty.")]

    @classmethod
    def of(cls, report: PoolReport) -> "PoolReportOut":
        return cls(
            sku_id=report.sku_id,
            ok=report.finding is None,
            checked_at=rfc3339(report.checked_at),
            in_transfer=report.in_transfer,
            shards=[ShardReportOut.of(part) for part in report.shards],
            **_counts(report),
        )


class ReconciliationOut(Struct, frozen=True):
    ok: bool
    data: list[PoolReportOut]

    @classmethod
    def of(cls, reports: Iterable[PoolReport]) -> "ReconciliationOut":
        data = [PoolReportOut.of(report) for report in reports if not is_shard(report.sku_id)]
        return cls(all(report.ok for report in data), data)


class PoolsOut(ReconciliationOut, frozen=True):
    locked_pools: Annotated[
        list[str], Meta(description="Recently refused because another process or an operator holds their lock.")
    ]

    @classmethod
    def of_server(cls, reports: Iterable[PoolReport], locked: list[str]) -> "PoolsOut":
        found = ReconciliationOut.of(reports)
        return cls(found.ok and not locked, found.data, locked)


def _counts(report: PoolReport) -> dict[str, Any]:
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
