"""Why did a buyer not get one?"""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from holdfast.audit.ask import ask
from holdfast.audit.body import timeline_body
from holdfast.audit.search import Question
from holdfast.http.invalid import invalid_request
from holdfast.http.routes.callers import OperatorKey, TheHouse, json_response
from holdfast.http.schemas import OwnerId, SkuId, Timestamp
from holdfast.http.shedding import Feature
from holdfast.http.times import millis

router = APIRouter(tags=["operate"])


class MomentOut(BaseModel):
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


class TimelineOut(BaseModel):
    buyer_id: str
    refusals: dict[str, int]
    data: list[MomentOut]
    unreadable_segments: list[str]


@router.get(
    "/v1/ops/audit",
    response_model=TimelineOut,
    dependencies=[OperatorKey],
    summary="What happened to a buyer, refusals included",
)
async def get_audit(
    house: TheHouse,
    buyer_id: Annotated[OwnerId, Query()],
    sale_id: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    sku_id: Annotated[SkuId | None, Query()] = None,
    since: Annotated[str | None, Query(description="RFC 3339")] = None,
    until: Annotated[str | None, Query(description="RFC 3339")] = None,
    limit: Annotated[int, Query(ge=1, le=5_000)] = 500,
) -> Response:
    """The latest moments in order: refusals, and everything that happened to the buyer's reservations.

    Refusals appear up to 100 ms after they were told, and are those of the servers on this data directory.
    """
    house.door.shedder.check(Feature.AUDIT_SEARCH)
    question = Question(buyer_id, sku_id, sale_id, _moment("since", since), _moment("until", until), limit)
    await house.engine.catch_up(sku_id)
    timeline = await ask(house.database, house.settings.audit_directory, question)
    return json_response(timeline_body(timeline))


def _moment(field: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return millis(text)
    except (ValueError, OverflowError) as exc:
        raise invalid_request({field: "must be a moment such as 2026-05-01T10:00:00Z"}) from exc
