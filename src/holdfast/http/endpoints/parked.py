"""Parked items, and compensation when more was sold than can be delivered."""

from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, caller_of, json, no_content
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.money import (
    CompensateIn,
    CompensationOut,
    ParkedOut,
    ParkedPage,
    ParkedQuery,
    RetriedOut,
    RetryIn,
)
from holdfast.settlement.parked import DropRefused, NotParked


class ParkedEndpoints:
    def __init__(self, services: Services) -> None:
        self._parked, self._compensator = services.payments.parked, services.payments.compensator

    async def list(self, _request: Request, wanted: ParkedQuery) -> Answer:
        found, has_more = await self._parked.items(
            kind=wanted.kind, limit=wanted.limit, starting_after=wanted.starting_after
        )
        return json(ParkedPage([ParkedOut.of(item) for item in found], has_more))

    async def retry_all(self, _request: Request, given: RetryIn) -> Answer:
        return json(RetriedOut(await self._parked.retry_all(given.kind)))

    async def retry(self, _request: Request, parked_id: str) -> Answer:
        try:
            await self._parked.retry(parked_id)
        except NotParked:
            raise Problem(problems.PARKED_NOT_FOUND) from None
        return no_content()

    async def drop(self, request: Request, parked_id: str) -> Answer:
        try:
            await self._parked.drop(parked_id, caller_of(request).shown_name)
        except NotParked:
            raise Problem(problems.PARKED_NOT_FOUND) from None
        except DropRefused as exc:
            raise Problem(problems.MONEY_IS_OUT, str(exc)) from exc
        return no_content()

    async def compensate(self, _request: Request, sale_id: str, given: CompensateIn) -> Answer:
        done = await self._compensator.compensate(sale_id, given.deliverable_units, is_approved=given.approved)
        if done is None:
            raise Problem(problems.SALE_NOT_FOUND)
        return json(CompensationOut.of(done))
