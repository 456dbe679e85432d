"""What the console asks for, in the OpenAPI document. Answers themselves are encoded directly."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from holdfast.http.console.pacing import Pacing
from holdfast.http.room_schemas import RoomFactsOut
from holdfast.http.sale_schemas import OperatorSaleOut
from holdfast.http.schemas import Timestamp
from holdfast.http.times import rfc3339
from holdfast.ledger.console_sessions import Session
from holdfast.ledger.keys import Scope, ServiceKey

KeyName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class SessionOut(BaseModel):
    key_id: str | None = Field(description="Null for the key with every scope.")
    name: str | None
    scopes: list[Scope]
    expires_at: Timestamp | None = Field(description="Null for who sends a service key instead.")


class KeyIn(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: KeyName = Field(description="What it is for, so that you know it again.", examples=["checkout"])
    scopes: list[Scope] = Field(min_length=1, max_length=3, description="None that the caller does not have.")


class ServiceKeyOut(BaseModel):
    key_id: str
    name: str
    scopes: list[Scope]
    created_at: Timestamp
    revoked_at: Timestamp | None


class NewServiceKeyOut(ServiceKeyOut):
    key: str = Field(description="The key itself. Shown this once.")


class ServiceKeyList(BaseModel):
    data: list[ServiceKeyOut]


class DependencyOut(BaseModel):
    name: str
    kind: str = Field(description="`store`, `gate`, `payment` or `agent`.")
    ok: bool
    detail: str
    answered_in_ms: float | None = Field(description="Where it was asked just now.")


class LoadOut(BaseModel):
    not_answering: list[str]
    switched_off: list[str]
    agents_ended: list[str]
    under_way: int
    under_way_max: int


class SystemHealthOut(BaseModel):
    """Of the process that answers; others may see it differently."""

    ok: bool
    version: str
    data: list[DependencyOut]
    load: LoadOut
    parked: dict[str, int] = Field(description="By kind; empty if the store cannot be asked.")


class StockOut(BaseModel):
    """`total = available + held + settling + sold`."""

    total: int
    available: int
    held: int = Field(description="In carts: active reservations.")
    settling: int = Field(description="Being paid for, parked ones included.")
    sold: int


class AttemptsOut(BaseModel):
    """Of the pool, since it was made, by all server processes."""

    total: int
    granted: int
    repeated: int = Field(description="The first answer again, under the same idempotency key.")
    refused: dict[str, int] = Field(description="By outcome.")


class ReturnedOut(BaseModel):
    expired: int
    cancelled: int
    failed: int


class AnswerTimesOut(BaseModel):
    """From a command's arrival at the gate until its answer is on disk; over about the last ten seconds."""

    p50: float | None
    p99: float | None
    answers: int


class SettlementOut(BaseModel):
    open: int
    oldest_s: float


class LiveRoomOut(RoomFactsOut):
    inside: int = Field(description="Called and expected, or with a pass that is neither used nor lapsed.")
    why: Pacing = Field(description="What holds the line back, or lets it go at its target.")


class DriftOut(BaseModel):
    ok: bool
    finding: str | None
    checked_at: Timestamp
    journal_lag: int
    units_apart: int


class TurnedAwayOut(BaseModel):
    """By the whole server, before anything was decided."""

    shed: int
    limited: int


class LiveOut(BaseModel):
    as_of: Timestamp = Field(description="When the figures were read, by the engine's clock.")
    sale: OperatorSaleOut
    stock: StockOut | None
    next_return_at: Timestamp | None
    attempts: AttemptsOut
    returned_units: ReturnedOut
    answer_ms: AnswerTimesOut
    settlement: SettlementOut
    room: LiveRoomOut | None
    parked: dict[str, int] = Field(description="By kind, of all sales.")
    drift: DriftOut | None = Field(description="Null where this process does no background work.")
    turned_away: TurnedAwayOut
    health: LoadOut


def session_body(session: Session) -> dict[str, Any]:
    return {
        "key_id": session.key_id,
        "name": session.key_name,
        "scopes": sorted(session.scopes),
        "expires_at": rfc3339(session.expires_at),
    }


def key_body(key: ServiceKey) -> dict[str, Any]:
    return {
        "key_id": key.key_id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_at": rfc3339(key.created_at),
        "revoked_at": None if key.revoked_at is None else rfc3339(key.revoked_at),
    }
