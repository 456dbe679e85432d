"""Buyers who retry, double-click, disconnect, change their minds and abandon carts; and every response they got."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from holdfast.checkout.purchase import Denied, Granted, Refused, Wanted
from holdfast.domain.sale.sale import PaymentKind
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.errors import Busy, OutcomeUnknown, Unavailable
from holdfast.lab.simulate.buyers.api import Api
from holdfast.lab.simulate.buyers.asking import Direct, Handle
from holdfast.lab.simulate.buyers.client import Defect, Gone
from holdfast.lab.simulate.buyers.http import OverHttp
from holdfast.lab.simulate.buyers.line import Line, Stood
from holdfast.lab.simulate.channel import NoAnswer, NotReached
from holdfast.lab.simulate.process import Process
from holdfast.lab.simulate.scenario import Scenario, Shopper
from holdfast.ledger.money.payment_notes import Method

# Failures after which, as the server promises, nothing has happened.
NOTHING = frozenset({"busy", "unavailable", "not_reached"})
_FINAL = frozenset({Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED})
LOOKS_MAX = 4


class Told(Struct, frozen=True):
    """One response to one request. `answer` is an outcome, or how the request failed."""

    buyer_id: str
    what: str
    answer: str
    asked_s: float
    at_s: float
    key: str | None = None
    reservation_id: str | None = None
    quantity: int = 0


class Buyer:
    def __init__(
        self,
        shopper: Shopper,
        scenario: Scenario,
        api: Api,
        choose: Callable[[], Process],
        told: list[Told],
        stood: list[Stood],
    ) -> None:
        self._shopper, self._scenario, self._api, self._choose = shopper, scenario, api, choose
        self._told = told
        self._key = f"key-{shopper.buyer_id}"
        self._asking = OverHttp() if scenario.is_http else Direct()
        self._pass: str | None = None
        room = scenario.room
        behaviour = "buy" if room is None else room.behaviour_of(shopper.buyer_id)
        self._line = None if room is None else Line(shopper.buyer_id, behaviour, self._request, stood)

    async def shop(self) -> None:
        await asyncio.sleep(self._shopper.arrives_s)
        clicks = [self.buy() for _ in range(2 if self._shopper.double_clicks else 1)]
        granted = [one for one in await asyncio.gather(*clicks) if one is not None]
        if granted and granted[0].status is Status.ACTIVE:
            await asyncio.sleep(self._shopper.thinks_s)
            await self._after_hold(granted[0].reservation_id)
        elif granted:
            await self._watch(granted[0].reservation_id)

    async def buy(self) -> Reservation | None:
        if self._line is not None:
            self._pass = await self._line.wait_for_pass()
            if self._pass is None:
                return None
        for _ in range(self._shopper.attempts_max):
            answer = await self._purchase()
            if isinstance(answer, Granted):
                return answer.reservation
            if isinstance(answer, Refused) and not answer.verdict.outcome.is_transient:
                return None
            if isinstance(answer, Denied):
                return None
            await asyncio.sleep(self._shopper.pause_s)
        return None

    async def _purchase(self) -> Any:
        shopper = self._shopper
        method = None if shopper.method is None else Method(shopper.method)
        wanted = Wanted(shopper.buyer_id, 0, self._key, shopper.quantity, shopper.min_quantity, method, self._pass)
        return await self.ask("purchase", self._asking.purchase(wanted), key=self._key)

    async def _after_hold(self, id_: str) -> None:
        then = self._shopper.then
        buyer_id = self._shopper.buyer_id
        if then == "extend":
            await self._until_moved("extend", id_, self._asking.extend(id_, buyer_id, 3))
        if then == "waver":
            await asyncio.gather(self._pay(id_), self._cancel(id_))
        if then == "cancel":
            await self._cancel(id_)
        elif then in ("pay", "extend"):
            await self._pay(id_)
            await self._watch(id_)

    async def _cancel(self, id_: str) -> None:
        buyer_id = self._shopper.buyer_id
        await self._until_moved("cancel", id_, self._asking.cancel(id_, buyer_id))

    async def _pay(self, id_: str) -> None:
        buyer_id = self._shopper.buyer_id
        if self._scenario.payment is PaymentKind.EXTERNAL:
            await self._until_moved("confirm", id_, self._asking.confirm(id_))
        else:
            method = None if self._shopper.method is None else Method(self._shopper.method)
            await self._until_moved("pay", id_, self._asking.pay(id_, buyer_id, method))

    async def _until_moved(self, what: str, id_: str, handle: Handle) -> None:
        clicks = 2 if self._shopper.double_clicks else 1
        await asyncio.gather(*[self._repeat(what, id_, handle) for _ in range(clicks)])

    async def _repeat(self, what: str, id_: str, handle: Handle) -> None:
        for _ in range(self._shopper.attempts_max):
            answer = await self.ask(what, handle, reservation_id=id_)
            if answer is not None and not (isinstance(answer, Verdict) and answer.outcome.is_transient):
                return
            await asyncio.sleep(self._shopper.pause_s)

    async def _watch(self, id_: str) -> None:
        for _ in range(LOOKS_MAX):
            await asyncio.sleep(1.0)
            found = await self.ask("look", self._asking.look(id_, self._shopper.buyer_id), reservation_id=id_)
            if isinstance(found, Reservation) and found.status in _FINAL:
                return
            if isinstance(found, Reservation) and found.status is Status.ACTIVE:
                # The payment was declined.
                await self._pay(id_)

    async def ask(self, what: str, handle: Handle, *, key: str | None = None, reservation_id: str | None = None) -> Any:
        """Returns the response, or None if it told the buyer nothing. Records it either way."""
        result, answer, asked_s, at_s = await self._request(handle, what)
        quantity = 0
        if not answer:
            answer, reservation_id, quantity = _read(result, reservation_id)
        told = Told(self._shopper.buyer_id, what, answer, asked_s, at_s, key, reservation_id, quantity)
        self._told.append(told)
        self._api.trace.note("told", what, answer, reservation_id or "")
        return result

    async def _request(self, handle: Handle, what: str = "room") -> tuple[Any, str, float, float]:
        """Returns the result, the failure if any, and when the request was sent and answered."""
        asked_s, result, failure = round(self._api.loop.now_s, 4), None, ""
        try:
            result = await self._api.request(self._choose(), what, handle, self._shopper.patience_s)
        except (Busy, Unavailable, OutcomeUnknown, NotReached, NoAnswer, Gone, Defect) as exc:
            failure = _FAILURES.get(type(exc), "unavailable")
        return result, failure, asked_s, round(self._api.loop.now_s, 4)


_FAILURES: dict[type[Exception], str] = {
    Busy: "busy",
    Unavailable: "unavailable",
    OutcomeUnknown: "unknown",
    NotReached: "not_reached",
    NoAnswer: "silence",
    Gone: "silence",
    Defect: "defect",
}


def _read(result: Any, reservation_id: str | None) -> tuple[str, str | None, int]:
    """The response in one word, the reservation it concerns, and its units."""
    if isinstance(result, Granted):
        answer = Outcome.REPLAYED if result.is_repeat else Outcome.RESERVED
        return answer, result.reservation.reservation_id, result.reservation.quantity
    if isinstance(result, Refused):
        return result.verdict.outcome, None, 0
    if isinstance(result, Verdict):
        return result.outcome, reservation_id, 0
    if isinstance(result, Reservation):
        return result.status, reservation_id, result.quantity
    return "none" if result is None else str(result), reservation_id, 0
