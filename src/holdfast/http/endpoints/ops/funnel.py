"""Where people dropped off, from the files of the click stream."""

import asyncio
from time import monotonic

from msgspec import convert

from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import FunnelOut, FunnelRefusalOut, FunnelStepOut
from holdfast.streams.clicks.funnel import Funnel, read_funnel

FRESH_S = 5.0
KEPT_MAX = 100


class FunnelEndpoint:
    def __init__(self, services: Services) -> None:
        self._catalogue, self._directory = services.catalogue, services.settings.clicks_directory
        self._read: dict[str, tuple[float, Funnel]] = {}
        # One at a time: files are read in a thread, and a crowd of operators shares what was read.
        self._reading = asyncio.Lock()

    async def funnel(self, _request: Request, sale_id: str) -> Answer:
        if await self._catalogue.find(sale_id) is None:
            raise Problem(problems.SALE_NOT_FOUND)
        if self._directory is None:
            return json(FunnelOut(sale_id, False, [], []))
        found = await self._fresh(sale_id)
        steps, refusals = (
            convert(found.steps, list[FunnelStepOut], from_attributes=True),
            convert(found.refusals, list[FunnelRefusalOut], from_attributes=True),
        )
        return json(FunnelOut(sale_id, True, steps, refusals))

    async def _fresh(self, sale_id: str) -> Funnel:
        async with self._reading:
            until, found = self._read.get(sale_id, (0.0, None))
            if found is None or until < monotonic():
                assert self._directory is not None
                found = await asyncio.to_thread(read_funnel, self._directory, sale_id)
                if len(self._read) >= KEPT_MAX:
                    self._read.clear()
                self._read[sale_id] = (monotonic() + FRESH_S, found)
            return found
