"""Lists over all cells: every cell is asked at once, and one that does not answer in time is named and left out.

IDs begin with the time, in every cell alike, so a merged page is in the right order and its last ID continues it.
"""

import asyncio
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import msgspec

from holdfast.http.contract import cell_problems
from holdfast.http.contract.message import PRIVATE_JSON, Answer, Request, encode, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.drops import DropQuery
from holdfast.http.contract.schemas.inventory import ReservationQuery
from holdfast.http.contract.schemas.money import OrderQuery
from holdfast.http.contract.schemas.sales import SaleQuery
from holdfast.http.server.cells.cell import Cell

Row = dict[str, Any]
# By cell that answered.
Answers = dict[str, Answer]


class CellLists:
    def __init__(self, cells: Mapping[str, Cell]) -> None:
        self._cells = cells

    async def orders(self, request: Request, wanted: OrderQuery) -> Answer:
        return await self._page(request, "order_id", wanted.limit, newest_first=True)

    async def reservations(self, request: Request, wanted: ReservationQuery) -> Answer:
        return await self._page(request, "reservation_id", wanted.limit, newest_first=True)

    async def sales(self, request: Request, wanted: SaleQuery) -> Answer:
        return await self._page(request, "sale_id", wanted.limit, newest_first=False)

    async def drops(self, request: Request, wanted: DropQuery) -> Answer:
        return await self._page(request, "drop_id", wanted.limit, newest_first=False)

    async def wallet(self, request: Request, buyer_id: str) -> Answer:
        """Everything a buyer has, in all cells. A partial list would look like a loss."""
        answers, missing = await self._ask(request)
        refused = next((answer for answer in answers.values() if answer.status >= 300), None)
        if refused is not None:
            return refused
        if missing:
            raise Problem(cell_problems.CELL_UNAVAILABLE, cell=missing[0])
        sums: dict[str, int] = {}
        for document in map(_document, answers.values()):
            for balance in document["balances"]:
                sums[balance["currency"]] = sums.get(balance["currency"], 0) + balance["balance"]
        balances = [{"buyer_id": buyer_id, "balance": sums[name], "currency": name} for name in sorted(sums)]
        first = balances[0] if balances else {"balance": 0, "currency": None}
        found = {"buyer_id": buyer_id, "balance": first["balance"], "currency": first["currency"]}
        return json(found | {"balances": balances})

    async def everything(self, request: Request, *_given: object) -> Answer:
        """The lists of all cells, merged."""
        answers, missing = await self._ask(request)
        refused = next((answer for answer in answers.values() if answer.status >= 300), None)
        return refused or json(_merged(list(map(_document, answers.values()))) | _told(missing))

    async def anywhere(self, request: Request, *_given: object) -> Answer:
        """From the one cell that has it."""
        answers, missing = await self._ask(request)
        for answer in answers.values():
            if answer.status != 404:
                return answer
        if missing:
            raise Problem(cell_problems.CELL_UNAVAILABLE, cell=missing[0])
        return next(iter(answers.values()))

    async def everywhere(self, request: Request, *_given: object) -> Answer:
        """A notice that concerns one cell. The others ignore it."""
        answers, missing = await self._ask(request)
        refused = next((answer for answer in answers.values() if answer.status >= 300), None)
        if refused is None and missing:
            raise Problem(cell_problems.CELL_UNAVAILABLE, cell=missing[0])
        return refused or next(iter(answers.values()))

    async def _page(self, request: Request, key: str, limit: int, *, newest_first: bool) -> Answer:
        answers, missing = await self._ask(request)
        refused = next((answer for answer in answers.values() if answer.status >= 300), None)
        if refused is not None:
            return refused
        rows: list[Row] = []
        has_more = False
        for document in map(_document, answers.values()):
            has_more = has_more or document["has_more"]
            rows += document["data"]
        rows.sort(key=itemgetter(key), reverse=newest_first)
        page = {"data": rows[:limit], "has_more": has_more or len(rows) > limit}
        return Answer(200, [*PRIVATE_JSON], encode(page | _told(missing)))

    async def _ask(self, request: Request) -> tuple[Answers, list[str]]:
        """Also the cells that did not answer. If none did, that is a failure and not an empty list."""
        given = await asyncio.gather(*[cell.ask(request) for cell in self._cells.values()])
        answers = {name: answer for name, answer in zip(self._cells, given, strict=True) if answer is not None}
        missing = [name for name in self._cells if name not in answers]
        if not answers:
            raise Problem(cell_problems.CELL_UNAVAILABLE, "No cell answers. Nothing was changed; retry shortly.")
        return answers, missing


def _merged(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Lists one after the other, numbers added up."""
    return {name: _merge([document[name] for document in documents if name in document], name) for name in documents[0]}


def _merge(values: list[Any], name: str) -> Any:
    first = values[0]
    if isinstance(first, bool):
        return all(values) if name == "ok" else any(values)
    if isinstance(first, int):
        return sum(values)
    if isinstance(first, list):
        return [row for value in values for row in value]
    if isinstance(first, dict):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _merge([value[name] for value in values if name in value], name) for name in names}
    return first


def _document(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return found


def _told(missing: list[str]) -> dict[str, list[str]]:
    return {"unavailable_cells": missing} if missing else {}
