"""The list of a lottery, once it is closed."""

from msgspec import Struct
from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.domain.room.room import RoomState
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.room import LotteryQuery
from holdfast.ledger.room.rooms import find_room, list_entries
from holdfast.ledger.sales.sales import find_sale

# 65 bytes each: a response of 650 kB, which caches keep indefinitely. Only whole portions, so that there are few.
PORTION = 10_000
# Nothing on a closed list changes any more.
CACHE = "public, max-age=31536000, immutable"


class Portion(Struct, frozen=True):
    room: RoomState
    entries: list[str]


class LotteryEndpoint:
    def __init__(self, services: Services) -> None:
        self._reads = services.reads

    async def entries(self, request: Request, sale_id: str, wanted: LotteryQuery) -> Answer:
        first = wanted.first
        if first % PORTION:
            raise invalid_request({"from": f"must be a multiple of {PORTION}"})
        found = await self._reads.read(lambda connection: _portion(connection, sale_id, first))
        last, etag = first + len(found.entries), f'"{found.room.digest}-{first}"'
        headers = [("cache-control", CACHE), ("etag", etag)]
        if found.room.entrants is not None and last < found.room.entrants:
            headers.append(("link", f'<{request.path}?from={last}>; rel="next"'))
        if request.header("if-none-match") == etag:
            return Answer(304, headers, b"")
        body = "".join(f"{entry}\n" for entry in found.entries).encode()
        return Answer(200, [("content-type", "text/plain; charset=utf-8"), *headers], body)


def _portion(connection: Connection, sale_id: str, first: int) -> Portion:
    sale = find_sale(connection, sale_id)
    if sale is None:
        raise Problem(problems.SALE_NOT_FOUND)
    room = find_room(connection, sale.line_id)
    if room is None or room.entrants is None or room.digest is None:
        raise Problem(problems.LOTTERY_NOT_DRAWN)
    if room.pruned:
        raise Problem(problems.SALE_NOT_FOUND, "The list of this lottery is no longer kept.")
    last = min(first + PORTION, room.entrants)
    return Portion(room, list_entries(connection, room, first, last) if first < last else [])
