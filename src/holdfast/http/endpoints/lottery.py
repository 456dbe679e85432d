"""The list of a lottery, once it is closed.

It is public and large, and reading a portion takes the ledger tens of milliseconds. So portions count as large answers
(protection/large_answers.py) before they are read; a cache that has one already is told so without reading it.
"""

from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.domain.room.room import RoomState
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.room import LotteryQuery
from holdfast.http.protection.large_answers import large_answers
from holdfast.ledger.room.rooms import find_room, list_entries
from holdfast.ledger.sales.sales import find_sale

# A SHA-256 in hexadecimal, and the end of the line.
ENTRY_BYTES = 65
# A response of 650 kB, which caches keep indefinitely. Only whole portions, so that there are few.
PORTION = 10_000
# Nothing on a closed list changes any more.
CACHE = "public, max-age=31536000, immutable"


class LotteryEndpoint:
    def __init__(self, services: Services) -> None:
        self._reads = services.reads

    async def entries(self, request: Request, sale_id: str, wanted: LotteryQuery) -> Answer:
        first = wanted.first
        if first % PORTION:
            raise invalid_request({"from": f"must be a multiple of {PORTION}"})
        room = await self._reads.read(lambda connection: _closed_room(connection, sale_id))
        entrants = room.entrants or 0
        last, etag = min(first + PORTION, entrants), f'"{room.digest}-{first}"'
        headers = [("cache-control", CACHE), ("etag", etag)]
        if last < entrants:
            headers.append(("link", f'<{request.path}?from={last}>; rel="next"'))
        if request.header("if-none-match") == etag:
            return Answer(304, headers, b"")
        found = await self._read(room, first, last) if first < last else []
        body = "".join(f"{entry}\n" for entry in found).encode()
        return Answer(200, [("content-type", "text/plain; charset=utf-8"), *headers], body)

    async def _read(self, room: RoomState, first: int, last: int) -> list[str]:
        large_answers.spend((last - first) * ENTRY_BYTES)
        return await self._reads.read(lambda connection: list_entries(connection, room, first, last))


def _closed_room(connection: Connection, sale_id: str) -> RoomState:
    sale = find_sale(connection, sale_id)
    if sale is None:
        raise Problem(problems.SALE_NOT_FOUND)
    room = find_room(connection, sale.line_id)
    if room is None or room.entrants is None or room.digest is None:
        raise Problem(problems.LOTTERY_NOT_DRAWN)
    if room.pruned:
        raise Problem(problems.SALE_NOT_FOUND, "The list of this lottery is no longer kept.")
    return room
