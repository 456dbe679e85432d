"""Buying in a sale, and fixing what that will cost."""

from functools import partial

from holdfast.access.identity import Caller
from holdfast.bootstrap.services import Services
from holdfast.checkout.purchase import (
    AddressLimitReached,
    AttemptLimitReached,
    CertainRefusal,
    Denied,
    DropLimitReached,
    Granted,
    NotReached,
    QuoteNotUsable,
    Refused,
    Unproven,
    Wanted,
)
from holdfast.checkout.quotes import QuoteDenied, QuoteRefused
from holdfast.domain.sale.sale import MAX_AMOUNT, Sale, SaleState
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import is_sku_id
from holdfast.errors import EngineError
from holdfast.http.contract import problems
from holdfast.http.contract.message import PRIVATE_JSON, REPLAYED, Answer, Request, caller_of, encode, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.refusals import EncodedRefusals, behind, invalid_request, proof_refusal, purchase_refusal
from holdfast.http.contract.schemas.quotes import QuoteIn, QuoteOut
from holdfast.http.contract.schemas.sales import PurchaseIn, PurchaseOut
from holdfast.http.protection.admission import AdmissionControl
from holdfast.ledger.money.payment_notes import Method
from holdfast.runtime.times import rfc3339


class PurchaseEndpoint:
    def __init__(self, services: Services, admission: AdmissionControl) -> None:
        self._purchase, self._receipts, self._refusals = services.purchase_units, services.receipts, services.refusals
        self._mine = services.find_mine
        self._reaper, self._addresses = admission.reaper, admission.addresses
        self._encoded = EncodedRefusals(purchase_refusal)
        self._lag_guard = services.lag_guard

    async def purchase(self, request: Request, sale_id: str, given: PurchaseIn) -> Answer:
        if given.min_quantity is not None and given.min_quantity > given.quantity:
            raise invalid_request({"min_quantity": "must not be more than quantity"})
        if given.min_quantity not in (None, given.quantity) and given.quote_id is not None:
            raise invalid_request({"min_quantity": "must be left out with a quote, which is for one quantity"})
        caller = caller_of(request)
        assert caller.buyer_id is not None
        key = request.idempotency_key or self._key_of_pass(request, caller.buyer_id)
        is_shedding = self._lag_guard.is_shedding
        if is_shedding and request.header("holdfast-retry") is None:
            raise behind()
        wanted = Wanted(
            caller.buyer_id,
            caller.tier,
            key,
            given.quantity,
            given.min_quantity,
            chosen_method(caller, given.payment_method),
            request.header("holdfast-pass"),
            given.proof,
            given.quote_id,
            partial(self._addresses.limited_in_units, request.connection),
        )
        wait = partial(self._reaper.wait, client=request.connection)
        result = await (
            self._purchase.purchase(sale_id, wanted, wait)
            if not is_shedding
            else self._purchase.repeat(sale_id, wanted)
        )
        if isinstance(result, Granted):
            return self._granted(result)
        if isinstance(result, Denied):
            raise _denied(result)
        if isinstance(result, Unproven):
            raise proof_refusal(result.entry)
        if not isinstance(result, Refused):
            raise self._limited(result, caller, given.quantity, request.request_id)
        if result.verdict.outcome is Outcome.BUYER_LIMIT:
            self._note(result, wanted, request.request_id)
            held = await self._live_ids(result.sale, caller.buyer_id)
            raise Problem(problems.BUYER_LIMIT, reservation_ids=held).recorded()
        return self._refused(result, wanted, request.request_id)

    def _limited(self, result: NotReached, caller: Caller, quantity: int, request_id: str) -> Problem:
        """The response for refusals before the gate."""
        sale = result.sale
        if isinstance(result, QuoteNotUsable):
            is_expired = result.refused is QuoteRefused.EXPIRED
            return Problem(problems.QUOTE_EXPIRED if is_expired else problems.QUOTE_MISMATCH)
        problem = _limit_problem(result)
        assert caller.buyer_id is not None
        who = (sale.sku_id, caller.buyer_id, quantity, request_id, sale.sale_id, caller.tier)
        self._refusals.note_reason(problem.kind.reason, *who)
        return problem.recorded()

    def certain_refusal(self, sale_id: str, wanted: Wanted) -> CertainRefusal | None:
        """The refusal that is known now, without waiting for anything."""
        return None if self._lag_guard.is_shedding else self._purchase.certain_refusal(sale_id, wanted)

    def refuse(self, certain: CertainRefusal, wanted: Wanted, request_id: str) -> Answer:
        return self._refused(self._purchase.refuse(certain), wanted, request_id)

    def _refused(self, refused: Refused, wanted: Wanted, request_id: str) -> Answer:
        self._note(refused, wanted, request_id)
        problem, body = self._encoded.of(refused.verdict, refused.sale.state)
        return Answer(problem.status, problem.headers(), body)

    def _note(self, refused: Refused, wanted: Wanted, request_id: str) -> None:
        sale = refused.sale
        who = (sale.sku_id, wanted.buyer_id, wanted.quantity, request_id, sale.sale_id, wanted.tier)
        self._refusals.note(refused.verdict, *who)

    def _key_of_pass(self, request: Request, buyer_id: str) -> str:
        """A double click in a plain form is one purchase."""
        text = request.header("holdfast-pass")
        key = None if text is None else self._purchase.key_of_pass(buyer_id, text)
        if key is None:
            raise Problem(problems.IDEMPOTENCY_KEY_REQUIRED)
        return key

    async def _live_ids(self, sale: Sale, buyer_id: str) -> list[str]:
        """Empty if they cannot be read: the refusal is certain without them."""
        try:
            return await self._mine.live_ids(sale, buyer_id)
        except EngineError:
            return []

    def _granted(self, result: Granted) -> Answer:
        sale, granted = result.sale, result.reservation
        amount, currency = result.price
        body = PurchaseOut(
            granted.reservation_id,
            sale.sale_id,
            granted.quantity,
            granted.status,
            rfc3339(granted.expires_at),
            amount,
            currency,
            self._receipts.sign(granted),
        )
        if result.is_repeat:
            return Answer(200, [*PRIVATE_JSON, REPLAYED], encode(body))
        return Answer(201, [*PRIVATE_JSON], encode(body))


def chosen_method(caller: Caller, method_id: str | None) -> Method | None:
    return None if method_id is None else Method(method_id, caller.stripe_customer)


def _limit_problem(result: AddressLimitReached | AttemptLimitReached | DropLimitReached) -> Problem:
    if isinstance(result, DropLimitReached):
        limit, ids = result.exceeded.limit, result.exceeded.reservation_ids
        detail = f"A buyer may have {limit} units in all sales of this drop together."
        return Problem(problems.BUYER_LIMIT, detail, drop_id=result.sale.drop_id, limit=limit, reservation_ids=ids)
    return Problem(problems.ADDRESS_LIMIT if isinstance(result, AddressLimitReached) else problems.ATTEMPT_LIMIT)


def _denied(denied: Denied) -> Problem:
    if denied is Denied.SALE_NOT_FOUND:
        return Problem(problems.SALE_NOT_FOUND)
    if denied is Denied.BUSY:
        return behind()
    if denied is Denied.ADMISSION_REQUIRED:
        return Problem(problems.ADMISSION_REQUIRED)
    return invalid_request({"quantity": f"must not make the purchase exceed {MAX_AMOUNT}"})


_NO_QUOTE = {
    QuoteDenied.NO_RATE: {"currency": "has no rate here; leave it out for the sale's own"},
    QuoteDenied.AMOUNT_TOO_HIGH: {"quantity": f"must not make the purchase exceed {MAX_AMOUNT}"},
}


class QuoteEndpoint:
    def __init__(self, services: Services) -> None:
        self._quotes, self._catalogue = services.quotes, services.catalogue

    async def quote(self, request: Request, sale_id: str, given: QuoteIn) -> Answer:
        buyer_id = caller_of(request).buyer_id
        assert buyer_id is not None
        sale = await self._catalogue.find(sale_id) if is_sku_id(sale_id) else None
        if sale is None:
            raise Problem(problems.SALE_NOT_FOUND)
        if sale.state is SaleState.CLOSED:
            raise Problem(problems.SALE_ENDED)
        made = await self._quotes.make(sale, buyer_id, given.quantity, given.currency)
        if isinstance(made, QuoteDenied):
            raise invalid_request(_NO_QUOTE[made])
        return json(QuoteOut.of(made), 201)
