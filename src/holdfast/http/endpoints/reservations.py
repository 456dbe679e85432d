"""Reservations: what becomes of a hold."""

import builtins
from collections.abc import AsyncGenerator
from functools import partial

from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.checkout.holds import Denied
from holdfast.checkout.waiting import Wait
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.errors import EngineError
from holdfast.http.contract import payment_problems, problems
from holdfast.http.contract.message import (
    PRIVATE_JSON,
    Answer,
    Request,
    caller_of,
    encode,
    json,
    no_content,
    seen_by,
)
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import refusal
from holdfast.http.contract.schemas.inventory import (
    EventOut,
    ExtendIn,
    HistoryOut,
    ReservationOut,
    ReservationQuery,
    WaitQuery,
)
from holdfast.http.contract.schemas.reservations import ConfirmIn, ReservationPage, reservation_out
from holdfast.http.endpoints.purchase import chosen_method
from holdfast.http.protection.slow_requests import SlowRequestReaper
from holdfast.ledger.events.history import history
from holdfast.ledger.events.traces import trace_id_of
from holdfast.ledger.stock import queries

_DENIED = {
    Denied.NOTHING_TO_PAY: (problems.FORBIDDEN, "Buyers confirm by paying; only a service key may confirm without."),
    Denied.EXTERNAL_PAYMENT: (payment_problems.EXTERNAL_PAYMENT, None),
    Denied.PAYMENT_REQUIRED: (payment_problems.PAYMENT_REQUIRED, None),
    Denied.METHOD_REQUIRED: (payment_problems.PAYMENT_METHOD_REQUIRED, None),
    Denied.TIER_REQUIRED: (problems.TIER_REQUIRED, None),
}


class ReservationEndpoints:
    def __init__(self, services: Services, reaper: SlowRequestReaper) -> None:
        self._holds, self._receipts = services.holds, services.receipts
        self._database, self._catch_up = services.database, services.engine.catch_up
        self._reaper, self._events, self._reads = reaper, services.reservation_events, services.reads
        self._quotes = services.quotes

    async def list(self, request: Request, wanted: ReservationQuery) -> Answer:
        buyer_id = caller_of(request).buyer_id
        if buyer_id is not None and wanted.owner_id not in (None, buyer_id):
            raise Problem(problems.FORBIDDEN, "Buyers see their own reservations only; leave `owner_id` out.")

        def page(connection: Connection) -> tuple[list[Reservation], bool]:
            return queries.list_reservations(
                connection,
                self._database.now_ms(connection),
                limit=wanted.limit,
                sku_id=wanted.sku_id,
                owner_id=wanted.owner_id if buyer_id is None else buyer_id,
                status=wanted.status,
                starting_after=wanted.starting_after,
                among=None if buyer_id is None else queries.ids_of_owner(connection, buyer_id, wanted.sku_id),
            )

        # Without a SKU this would drain every pool, which no buyer may cause.
        if buyer_id is None or wanted.sku_id is not None:
            await self._catch_up(wanted.sku_id)
        found, has_more = await self._reads.read(page, seen_by(request))
        return json(ReservationPage(await self._shown(*found), has_more))

    async def get(self, request: Request, reservation_id: str, wanted: WaitQuery) -> Answer:
        found = await self.find(request, reservation_id)
        is_live = found.status in (Status.ACTIVE, Status.SETTLING)
        if wanted.wait is not None and is_live and self._events.may_wait(found.owner_id):
            # As a stream, it occupies no place of requests that do work.
            stream = self._wait_for_change(found, wanted.wait)
            # Up to its first portion, without suspending, so that it is counted.
            await anext(stream)
            return Answer(200, [*PRIVATE_JSON], b"", stream)
        return Answer(200, [*PRIVATE_JSON], await self._with_decline(found))

    async def _wait_for_change(self, found: Reservation, within_s: int) -> AsyncGenerator[bytes, None]:
        with self._events.counted_as_waiting(found.owner_id):
            yield b""
            try:
                look = partial(self._holds.look, found.reservation_id, None)
                shown = await self._with_decline(await self._events.wait(found, look, within_s))
            except EngineError:
                # The head is already sent: the last known state is better than nothing.
                shown = encode(reservation_out(found, self._holds.sale_of(found)))
            yield shown

    async def _with_decline(self, found: Reservation) -> bytes:
        sale = self._holds.sale_of(found)
        try:
            declined = None if sale is None else await self._holds.last_decline(found)
            prices = {} if sale is None else await self._quotes.prices_of([found.reservation_id])
        except EngineError:
            # The gate has the answer; how earlier payments went can be left out.
            return encode(reservation_out(found, sale))
        return encode(reservation_out(found, sale, declined, prices.get(found.reservation_id)))

    async def history(self, request: Request, reservation_id: str) -> Answer:
        found = await self.find(request, reservation_id)
        await self._catch_up(found.sku_id)
        events, trace_id = await self._reads.read(
            lambda c: (history(c, reservation_id), trace_id_of(c, reservation_id)), seen_by(request)
        )
        return json(HistoryOut([EventOut.of(event) for event in events], trace_id))

    async def confirm(self, request: Request, reservation_id: str, given: ConfirmIn) -> Answer:
        caller, wait = caller_of(request), self._wait(request)
        if caller.buyer_id is None:
            verdict = await self._holds.confirm(reservation_id, wait)
            return json(await self._moved(request, reservation_id, verdict))
        method = chosen_method(caller, given.payment_method)
        verdict = await self._holds.pay(reservation_id, caller.buyer_id, method, wait, caller.tier)
        held = verdict.reservation if isinstance(verdict, Verdict) else None
        if held is not None and held.status is Status.CONFIRMED:
            return json((await self._shown(held))[0])
        return json(await self._moved(request, reservation_id, verdict), 202)

    async def extend(self, request: Request, reservation_id: str, given: ExtendIn) -> Answer:
        buyer_id, ttl_ms = caller_of(request).buyer_id, given.ttl_seconds * 1000
        verdict = await self._holds.extend(reservation_id, buyer_id, ttl_ms, self._wait(request))
        return json(await self._moved(request, reservation_id, verdict))

    async def cancel(self, request: Request, reservation_id: str) -> Answer:
        verdict = await self._holds.cancel(reservation_id, caller_of(request).buyer_id, self._wait(request))
        await self._moved(request, reservation_id, verdict)
        return no_content()

    async def find(self, request: Request, reservation_id: str) -> Reservation:
        found = await self._holds.look(reservation_id, caller_of(request).buyer_id)
        if found is None:
            raise self._not_found(request, reservation_id)
        return found

    def _wait(self, request: Request) -> Wait:
        return partial(self._reaper.wait, client=request.connection)

    async def _moved(self, request: Request, reservation_id: str, verdict: Verdict | Denied) -> ReservationOut:
        if isinstance(verdict, Denied):
            if verdict is Denied.NOT_FOUND:
                raise self._not_found(request, reservation_id)
            raise Problem(*_DENIED[verdict])
        if verdict.outcome in (Outcome.POOL_NOT_FOUND, Outcome.NOT_FOUND):
            raise self._not_found(request, reservation_id)
        if verdict.reservation is None or not verdict.outcome.is_success:
            raise refusal(verdict)
        return (await self._shown(verdict.reservation))[0]

    async def _shown(self, *found: Reservation) -> builtins.list[ReservationOut]:
        prices = await self._quotes.prices_of([one.reservation_id for one in found])
        return [reservation_out(one, self._holds.sale_of(one), price=prices.get(one.reservation_id)) for one in found]

    def _not_found(self, request: Request, reservation_id: str) -> Problem:
        """Or lost: a receipt proves that it was granted once."""
        text = request.header("holdfast-receipt")
        receipt = None if text is None else self._receipts.read(text)
        is_of_it = receipt is not None and receipt.reservation_id == reservation_id
        if receipt is not None and is_of_it and caller_of(request).buyer_id in (None, receipt.owner_id):
            return Problem(problems.RESERVATION_LOST)
        return Problem(problems.RESERVATION_NOT_FOUND)
