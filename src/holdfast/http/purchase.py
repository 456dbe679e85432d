"""Buying in a sale: one request, one reservation, whatever is repeated."""

from functools import lru_cache

import msgspec
from sqlalchemy import Connection

from holdfast.bootstrap import House
from holdfast.domain.command import Reserve, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool, Rules, is_sku_id
from holdfast.domain.reservation import Reservation, new_reservation_id
from holdfast.domain.room import Use
from holdfast.domain.rulebook import decide
from holdfast.domain.sale import MAX_AMOUNT, Checkout, PaymentKind, RoomMode, Sale, SaleState
from holdfast.domain.state import State
from holdfast.http.fast_lane import identify
from holdfast.http.identity import Caller
from holdfast.http.invalid import from_decoding, invalid_request
from holdfast.http.patrol import Patrol
from holdfast.http.problems import Problem, forbidden
from holdfast.http.requests import Answer, Request, header_of, refuse
from holdfast.http.sale_problems import (
    admission_required,
    idempotency_key_required,
    purchase_refusal,
    sale_not_found,
)
from holdfast.http.sale_schemas import PurchaseIn
from holdfast.http.schemas import IdempotencyKey
from holdfast.http.times import rfc3339
from holdfast.ledger.payment_notes import forget_method, note_method
from holdfast.ledger.queries import find_remembered

_JSON = ("content-type", "application/json")
_REPLAYED = ("idempotency-replayed", "true")
# Who charges something the buyer names.
_WITH_METHODS = frozenset({PaymentKind.SANDBOX, PaymentKind.STRIPE})

_encode = msgspec.json.Encoder().encode
_parse = msgspec.json.Decoder(PurchaseIn).decode


class PurchaseDesk:
    def __init__(self, house: House, patrol: Patrol) -> None:
        self._house = house
        self._patrol = patrol

    async def purchase(self, request: Request, sale_id: str) -> Answer:
        house = self._house
        caller = request.caller or await identify(house, request.authorization)
        if caller.buyer_id is None:
            raise forbidden("Buyers purchase, with a token of their own; a service reserves in the inventory.")
        key = _key_of(request)
        try:
            given = _parse(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            return refuse(from_decoding(exc))
        if given.min_quantity is not None and given.min_quantity > given.quantity:
            raise invalid_request({"min_quantity": "must not be more than quantity"})
        sale = house.catalogue.at_hand(sale_id) or await self._find(sale_id)
        if sale.amount_of(given.quantity) > MAX_AMOUNT:
            raise invalid_request({"quantity": f"must not make the purchase dearer than {MAX_AMOUNT}"})
        command = _command(sale, caller, key, given)
        if sale.room.mode is not RoomMode.OFF and not self._is_admitted(request, sale, command.owner_id):
            return await self._repeat(sale, command)
        verdict = await self._reserve(request, sale, command, given.payment_method)
        if verdict.reservation is None:
            house.refusals.note(
                verdict, sale.sku_id, caller.buyer_id, given.quantity, request.request_id, sale_id, caller.tier
            )
            problem, body = _refusal(verdict, sale.state)
            return Answer(problem.status, problem.headers(), body)
        if sale.room.mode is not RoomMode.OFF and verdict.outcome is Outcome.RESERVED:
            house.desk.note_use(sale_id, Use(command.owner_id, verdict.reservation.quantity))
        return self._granted(sale, verdict.reservation, is_repeat=verdict.outcome is Outcome.REPLAYED)

    def _is_admitted(self, request: Request, sale: Sale, buyer_id: str) -> bool:
        """False for a pass that was good and is over. Raises for anything that never was one, for them, here."""
        text, now_s = header_of(request, "holdfast-pass"), self._house.catalogue.now_ms() / 1000
        given = None if text is None else self._house.tokens.read_any_pass(text, now_s)
        if given is None or (given.sub, given.sale) != (buyer_id, sale.sale_id):
            raise admission_required()
        return now_s < given.exp

    async def _repeat(self, sale: Sale, command: Reserve) -> Answer:
        """The same key gets the same answer, though the pass is over by now."""
        verdict = await self._recall(sale, command)
        if verdict.reservation is None:
            raise admission_required()
        return self._granted(sale, verdict.reservation, is_repeat=True)

    async def _find(self, sale_id: str) -> Sale:
        sale = await self._house.catalogue.find(sale_id) if is_sku_id(sale_id) else None
        if sale is None:
            raise sale_not_found()
        return sale

    async def _reserve(self, request: Request, sale: Sale, command: Reserve, method: str | None) -> Verdict:
        if sale.state is SaleState.CLOSED:
            return await self._recall(sale, command)
        if method is not None and sale.payment in _WITH_METHODS:
            return await self._reserve_with_method(request, sale, command, method)
        return await self._submit(request, sale, command)

    async def _recall(self, sale: Sale, command: Reserve) -> Verdict:
        """A closed sale grants nothing, but repeats what it granted. Its pool is not asked: it may be in another."""
        assert command.key is not None
        await self._house.engine.catch_up(sale.sku_id)
        first = await self._house.database.read(
            lambda c: find_remembered(c, sale.sku_id, command.owner_id, command.key or "")
        )
        remembered = {} if first is None else {(command.owner_id, command.key): first}
        over = State(sale.sku_id, Pool(sale.sku_id, 0, rules=Rules(ends_at=0)), remembered=remembered)
        return decide(over, [command], 0).verdicts[0]

    async def _submit(self, request: Request, sale: Sale, command: Reserve) -> Verdict:
        return await self._patrol.await_verdict(self._house.batcher.submit(sale.sku_id, command), request.wire)

    async def _reserve_with_method(self, request: Request, sale: Sale, command: Reserve, method: str) -> Verdict:
        """Noted first: an instant purchase may be charged the moment it is granted."""
        database, reservation_id = self._house.database, command.reservation_id

        def note(connection: Connection) -> None:
            now = database.now_ms(connection)
            note_method(connection, sale, reservation_id, command.owner_id, command.quantity, method, now)

        await database.write(note)
        verdict = await self._submit(request, sale, command)
        if verdict.outcome is not Outcome.RESERVED:
            await database.write(lambda c: forget_method(c, reservation_id))
        return verdict

    def _granted(self, sale: Sale, granted: Reservation, *, is_repeat: bool) -> Answer:
        body = {
            "reservation_id": granted.reservation_id,
            "sale_id": sale.sale_id,
            "quantity": granted.quantity,
            "status": granted.status,
            "expires_at": rfc3339(granted.expires_at),
            "amount": sale.amount_of(granted.quantity),
            "currency": sale.currency,
            "receipt": self._house.receipts.sign(granted),
        }
        self._house.cashier.settler.nudge()
        if is_repeat:
            return Answer(200, [_JSON, _REPLAYED], _encode(body))
        return Answer(201, [_JSON], _encode(body))


# What many are told at once is put into words once.
@lru_cache(maxsize=256)
def _refusal(verdict: Verdict, state: SaleState) -> tuple[Problem, bytes]:
    problem = purchase_refusal(verdict, state)
    return problem, problem.body()


def _key_of(request: Request) -> str:
    if request.idempotency_key is None:
        raise idempotency_key_required()
    try:
        return msgspec.convert(request.idempotency_key, IdempotencyKey)
    except msgspec.ValidationError as exc:
        raise from_decoding(exc, "Idempotency-Key") from exc


def _command(sale: Sale, caller: Caller, key: str, given: PurchaseIn) -> Reserve:
    assert caller.buyer_id is not None
    return Reserve(
        new_reservation_id(sale.sku_id, caller.buyer_id),
        caller.buyer_id,
        given.quantity,
        given.quantity if given.min_quantity is None else given.min_quantity,
        sale.hold_seconds * 1000,
        key,
        caller.tier,
        settle=sale.checkout is Checkout.INSTANT,
        sale_id=sale.sale_id,
        method=given.payment_method,
    )
