"""The list of a lottery, once it is closed, and the page that recomputes the draw in the browser."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.domain.room import RoomState
from holdfast.http.invalid import invalid_request
from holdfast.http.pages import page
from holdfast.http.room_problems import not_drawn
from holdfast.http.routes.callers import TheHouse
from holdfast.http.sale_problems import sale_not_found
from holdfast.http.sale_schemas import SaleId
from holdfast.ledger.rooms import find_room, list_entries
from holdfast.ledger.sales import find_sale

router = APIRouter(tags=["sales"])

# 65 bytes each: an answer of 650 kB, which caches keep for good. Only whole portions, so that there are few of them.
PORTION = 10_000
# Nothing on a closed list changes any more.
CACHE = "public, max-age=31536000, immutable"


class Portion(Struct, frozen=True):
    room: RoomState
    entries: list[str]


@router.get(
    "/v1/sales/{sale_id}/lottery/entries",
    response_class=Response,
    responses={200: {"description": "One entry per line, in arrival order", "content": {"text/plain": {}}}},
    summary="The closed list of a lottery",
)
async def entries(
    request: Request,
    sale_id: SaleId,
    house: TheHouse,
    first: Annotated[int, Query(alias="from", ge=0, le=2**48, description=f"A multiple of {PORTION:,}.")] = 0,
) -> Response:
    """Public, from the draw on. Portions of 10,000 follow one another by the `Link` header; put together they are the
    file whose SHA-256 is the `digest` in `now`."""
    if first % PORTION:
        raise invalid_request({"from": f"must be a multiple of {PORTION}"})
    found = await house.database.read(lambda connection: _portion(connection, sale_id, first))
    last = first + len(found.entries)
    headers = {"cache-control": CACHE, "etag": f'"{found.room.digest}-{first}"'}
    if found.room.entrants is not None and last < found.room.entrants:
        headers["link"] = f'<{request.url.path}?from={last}>; rel="next"'
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response("".join(f"{entry}\n" for entry in found.entries), headers=headers, media_type="text/plain")


def _portion(connection: Connection, sale_id: str, first: int) -> Portion:
    if find_sale(connection, sale_id) is None:
        raise sale_not_found()
    room = find_room(connection, sale_id)
    if room is None or room.entrants is None or room.digest is None:
        raise not_drawn()
    last = min(first + PORTION, room.entrants)
    return Portion(room, list_entries(connection, sale_id, first, last) if first < last else [])


@router.api_route("/lottery/{sale_id}", methods=["GET", "HEAD"], include_in_schema=False)
async def lottery_page(request: Request) -> Response:
    return page(request, "lottery/index.html")
