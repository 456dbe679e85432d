# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `operate`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from holdfast.client.types.operate import (
    AnswerTimes,
    Attempts,
    Drift,
    LiveRoom,
    Load,
    Returned,
    Settlement,
    Stock,
    TurnedAway,
)
from holdfast.client.types.sales import OperatorSale

if TYPE_CHECKING:
    Scope = Literal["admin", "inventory", "money", "operate", "read", "sales"]
else:
    Scope = str


class Live(Struct, frozen=True, kw_only=True):
    as_of: datetime  # When the figures were read, by the engine's clock.
    sale: OperatorSale
    stock: Stock | None = None
    next_return_at: datetime | None = None
    attempts: Attempts
    returned_units: Returned
    answer_ms: AnswerTimes
    settlement: Settlement
    room: LiveRoom | None = None
    parked: dict[str, int]  # By kind, of all sales.
    drift: Drift | None = None  # Null where this process does no background work.
    turned_away: TurnedAway
    health: Load


class HistoryRoom(Struct, frozen=True, kw_only=True):
    joined: int
    serving: int
    inside: int


class HistoryPoint(Struct, frozen=True, kw_only=True):
    """Counts of a span of time, and the highest levels in it. A span in which nothing happened is left out."""

    at: datetime  # The start of the span.
    seconds: int  # The length of the span.
    attempts: Attempts
    returned_units: Returned
    turned_away: TurnedAway
    answer_ms: AnswerTimes
    room: HistoryRoom | None = None
    settlement: Settlement


class SaleMark(Struct, frozen=True, kw_only=True):
    at: datetime
    kind: str
    by: str | None = None  # The operator or key; null: by schedule, or from the command line.
    detail: str | None = None


class SaleHistory(Struct, frozen=True, kw_only=True):
    sale_id: str
    as_of: datetime
    since: datetime
    seconds: int  # The length of a span, unless it has its own.
    points: list[HistoryPoint]
    marks: list[SaleMark]  # Operators' actions on the sale.


class FunnelStep(Struct, frozen=True, kw_only=True):
    step: str  # `view`, `join`, `pass`, `attempt` or `pay`.
    clicks: int  # How often, signed in or not.
    people: int  # Signed-in visitors who reached this step or a later one.
    stopped: int  # Visitors who stopped at this step.


class FunnelRefusal(Struct, frozen=True, kw_only=True):
    step: str
    reason: str
    clicks: int
    people: int


class Funnel(Struct, frozen=True, kw_only=True):
    sale_id: str
    enabled: bool  # Whether this host keeps files of the click stream.
    steps: list[FunnelStep]
    refusals: list[FunnelRefusal]  # The most frequent ones, with the refused step.


class Dependency(Struct, frozen=True, kw_only=True):
    name: str
    kind: str  # `capability`, `store`, `gate`, `payment` or `agent`.
    ok: bool
    detail: str
    age_ms: int | None = None  # Since it was last known to work.


class SystemHealth(Struct, frozen=True, kw_only=True):
    """Of the process that answers; others may see it differently."""

    ok: bool
    version: str
    data: list[Dependency]
    load: Load
    parked: dict[str, int]  # By kind; empty if the store cannot be read.


class ServiceKey(Struct, frozen=True, kw_only=True):
    key_id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    revoked_at: datetime | None = None
    created_by: str | None = None  # The key that created it; revoking it revokes this one.


class ServiceKeyList(Struct, frozen=True, kw_only=True):
    data: list[ServiceKey]


class NewServiceKey(Struct, frozen=True, kw_only=True):
    key_id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    revoked_at: datetime | None = None
    created_by: str | None = None  # The key that created it; revoking it revokes this one.
    key: str  # The key itself. Shown only once.
