"""Defects that the simulator must find: each breaks the product in one place, as a careless change might.

Most of them were real: the tests of tests/faults/ exist because of them.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from holdfast.domain.room import pace
from holdfast.domain.sale.settling_case import Effect, PaymentStatus, ProviderReplied
from holdfast.domain.stock import rulebook
from holdfast.domain.stock.command import TRANSITIONS, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status
from holdfast.errors import EngineError, OutcomeUnknown, Unavailable
from holdfast.gate.expirer import Expirer
from holdfast.gate.sql import SqlGate
from holdfast.http.endpoints import room as room_endpoints
from holdfast.ledger.events.deliveries import Result
from holdfast.ledger.events.outbox import OutboxQueries
from holdfast.ledger.mark import watch
from holdfast.ledger.money.settle_batch import SettleQueries
from holdfast.ledger.room.batch import RoomBatch
from holdfast.ledger.tables.money import settlements
from holdfast.payments.port import Charge
from holdfast.room import line_advancer
from holdfast.runtime import batching
from holdfast.runtime.engine_clock import EngineClock
from holdfast.settlement import interpreter
from holdfast.settlement.interpreter import Interpreter
from holdfast.settlement.posting import Posting, SettlementBatch
from holdfast.settlement.record import Record
from holdfast.settlement.unknown_charges import FoundCharges, UnknownCharges
from holdfast.webhooks import deliverer
from holdfast.webhooks.retry import judge

Mutate = Callable[[pytest.MonkeyPatch], None]


def unknown_outcome_reported_as_refusal(patch: pytest.MonkeyPatch) -> None:
    """Callers of a batch whose commit was not answered are told that nothing happened."""
    real = batching._fail

    def fail(future: Any, exc: Exception) -> None:
        real(future, Unavailable(str(exc)) if isinstance(exc, OutcomeUnknown) else exc)

    patch.setattr(batching, "_fail", fail)


def refused_commit_reported_as_success(patch: pytest.MonkeyPatch) -> None:
    """The verdicts are returned although the commit failed."""
    real_decide, real_apply = SqlGate.decide, SqlGate._apply

    def decide(self: SqlGate, *arguments: Any) -> Any:
        self.last = real_decide(self, *arguments)  # type: ignore[attr-defined]
        return self.last  # type: ignore[attr-defined]

    async def apply(self: SqlGate, sku_id: str, commands: Any) -> Any:
        try:
            return await real_apply(self, sku_id, commands)
        except Unavailable:
            last = getattr(self, "last", ())
            if len(last) == len(commands):
                return last
            raise

    patch.setattr(SqlGate, "decide", decide)
    patch.setattr(SqlGate, "_apply", apply)


def repeat_taken_for_another_request(patch: pytest.MonkeyPatch) -> None:
    """A buyer who repeats a request after a lost answer is told that the key was used."""
    patch.setattr(rulebook, "_repeat", lambda _command, _first: Verdict(Outcome.KEY_REUSED))


def key_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A repeated request is decided anew."""
    real = rulebook._Round._reserve

    def reserve(self: Any, command: Any) -> Any:
        self._remembered.clear()
        return real(self, command)

    patch.setattr(rulebook._Round, "_reserve", reserve)


def replay_says_sold_out(patch: pytest.MonkeyPatch) -> None:
    """An empty pool is looked at before the key."""
    real = rulebook._Round._reserve

    def reserve(self: Any, command: Any) -> Any:
        return self._refuse_for_stock() if self._free == 0 else real(self, command)

    patch.setattr(rulebook._Round, "_reserve", reserve)


def units_returned_twice(patch: pytest.MonkeyPatch) -> None:
    """A repeated cancellation returns the units again."""
    real = rulebook._Round._move

    def move(self: Any, command: Any) -> Any:
        verdict: Any = real(self, command)
        if verdict.outcome is Outcome.ALREADY and command.transition is Transition.CANCEL:
            self._held -= min(self._held, verdict.reservation.quantity)
            self._put(verdict.reservation)
        return verdict

    patch.setattr(rulebook._Round, "_move", move)


def payment_under_way_cancelled(patch: pytest.MonkeyPatch) -> None:
    """A buyer can cancel while the money moves."""
    sources = frozenset({Status.ACTIVE, Status.SETTLING})
    patch.setitem(TRANSITIONS, Transition.CANCEL, (sources, Status.CANCELLED))


def settling_hold_expires(patch: pytest.MonkeyPatch) -> None:
    """A deadline takes units back although a payment has begun."""
    real = rulebook._Round._grant

    def grant(self: Any, command: Any, quantity: int) -> Any:
        verdict = real(self, command, quantity)
        if not command.settle:
            return verdict
        self._end(verdict.reservation, Status.ACTIVE)
        self._active += 1
        return verdict

    patch.setattr(rulebook._Round, "_grant", grant)


def overdue_returned_before_deadline(patch: pytest.MonkeyPatch) -> None:
    """A batch that runs short takes back holds that still have time."""
    real = rulebook._Round._return_due_until

    def return_due(self: Any, enough: Any, limit: int = 100) -> int:
        now, self._now = self._now, self._now + 60_000
        try:
            return real(self, enough, limit)
        finally:
            self._now = now

    patch.setattr(rulebook._Round, "_return_due_until", return_due)


def expirer_gives_up_a_pool(patch: pytest.MonkeyPatch) -> None:
    """A pool that failed once is never visited again."""
    real = Expirer._expire

    async def expire(self: Any, sku_id: str) -> int:
        failed: set[str] = self.__dict__.setdefault("failed", set())
        if sku_id in failed:
            return 0
        try:
            return await real(self, sku_id)
        except EngineError:
            failed.add(sku_id)
            raise

    patch.setattr(Expirer, "_expire", expire)


def lost_reply_taken_for_decline(patch: pytest.MonkeyPatch) -> None:
    """An authorisation without an answer is not looked up."""
    _answer_failures(patch, Effect.AUTHORISE, ProviderReplied(PaymentStatus.DECLINED, reason="no answer"))


def lost_reply_taken_for_capture(patch: pytest.MonkeyPatch) -> None:
    """A capture without an answer counts as paid."""
    _answer_failures(patch, Effect.CAPTURE, ProviderReplied(PaymentStatus.CAPTURED))


def lost_lookup_taken_for_unknown_payment(patch: pytest.MonkeyPatch) -> None:
    """A look-up without an answer counts as "never seen", and a void as done."""
    _answer_failures(patch, Effect.VOID, ProviderReplied(PaymentStatus.VOIDED))
    real = Interpreter._run

    async def run(self: Interpreter, effect: Effect, record: Record) -> Any:
        event = await real(self, effect, record)
        is_lost = getattr(event, "effect", None) is Effect.CAPTURE
        return ProviderReplied(PaymentStatus.VOIDED) if is_lost else event

    patch.setattr(Interpreter, "_run", run)


def _answer_failures(patch: pytest.MonkeyPatch, wanted: Effect, answer: ProviderReplied) -> None:
    real = Interpreter._run

    async def run(self: Interpreter, effect: Effect, record: Record) -> Any:
        event = await real(self, effect, record)
        return answer if getattr(event, "effect", None) is wanted else event

    patch.setattr(Interpreter, "_run", run)


def charged_under_a_new_key(patch: pytest.MonkeyPatch) -> None:
    """Every attempt to authorise has a key of its own, so the provider cannot recognise a repetition."""
    numbers = iter(range(1_000_000))
    patch.setattr(interpreter, "Charge", lambda key, **rest: Charge(f"{key}-{next(numbers)}", **rest))


def order_not_written(patch: pytest.MonkeyPatch) -> None:
    """Units are sold without an order if many are settled together."""
    real = Posting._order

    def order(self: Posting, connection: Any, batch: SettlementBatch) -> None:
        del batch.sold[2:]
        real(self, connection, batch)

    patch.setattr(Posting, "_order", order)


def wallet_not_debited(patch: pytest.MonkeyPatch) -> None:
    """The payment is entered, and the balance stays what it was."""
    real = SettlementBatch._debit

    def debit(self: SettlementBatch, record: Record) -> None:
        balance = self.balances[record.account]
        real(self, record)
        self.balances[record.account] = self.changed_balances[record.account] = balance

    patch.setattr(SettlementBatch, "_debit", debit)


def lease_never_ends(patch: pytest.MonkeyPatch) -> None:
    """Work that a dead worker had leased is never taken over."""
    real = SettleQueries.lease

    def lease(self: SettleQueries, connection: Any, sku_id: str, now: int, until: int, limit: int) -> Any:
        return real(self, connection, sku_id, now, until + 10_000_000, limit)

    patch.setattr(SettleQueries, "lease", lease)


def failed_settlement_dropped(patch: pytest.MonkeyPatch) -> None:
    """An interrupted settlement is closed instead of retried."""
    real = Posting._store

    def store(self: Posting, connection: Any, batch: SettlementBatch, records: Any) -> None:
        real(self, connection, batch, records)
        for record in records:
            if record.case.attempts > 1:
                mine = settlements.c.reservation_id == record.reservation_id
                connection.execute(update(settlements).where(mine).values(state="done"))

    patch.setattr(Posting, "_store", store)


def clock_step_believed(patch: pytest.MonkeyPatch) -> None:
    """The clock of the database's host is followed wherever it goes."""
    patch.setattr(EngineClock, "_is_confirmed", lambda _self, _reading: True)


def start_believes_the_store(patch: pytest.MonkeyPatch) -> None:
    """A process that starts goes by the clock of the database's host, whatever that says."""

    def start(self: EngineClock, reading: int, _decided_at: int) -> None:
        self._ahead_ms = reading - self.elapsed_ms()
        self.correct(reading, self.elapsed_ms())

    patch.setattr(EngineClock, "start", start)


def ledger_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A ledger that lacks what it had is taken for the one that was seen before."""
    patch.setattr(watch, "went_back", lambda *_: None)


def charges_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    """When a ledger went back, nobody asks the provider what it was paid since."""

    async def find(*_: Any, **__: Any) -> FoundCharges:
        return FoundCharges()

    patch.setattr(UnknownCharges, "find", find)


def place_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Of people who join together, one is told a place that nobody stores."""
    real = RoomBatch.answer

    def answer(self: RoomBatch, ask: Any) -> Any:
        stand = real(self, ask)
        if len(self.joined) > 1:
            self.joined.pop()
        return stand

    patch.setattr(RoomBatch, "answer", answer)


def called_too_fast(patch: pytest.MonkeyPatch) -> None:
    """Time that was counted once is counted again at every step."""
    real = pace.advance
    patch.setattr(
        line_advancer, "advance", lambda before, *rest: real(replace(before, credit=before.credit + 50), *rest)
    )


def pass_before_the_call(patch: pytest.MonkeyPatch) -> None:
    """A pass is given to those who will be called next, too."""
    real = RoomBatch._admit

    def admit(self: RoomBatch, ask: Any, place: Any) -> Any:
        serving = self.room.serving
        self.room = replace(self.room, serving=serving + 3)
        try:
            return real(self, ask, place)
        finally:
            self.room = replace(self.room, serving=serving)

    real_place = room_endpoints.place_in
    patch.setattr(RoomBatch, "_admit", admit)
    patch.setattr(room_endpoints, "place_in", lambda *given: max((real_place(*given) or 0) - 3, 0))


def relay_marks_ahead(patch: pytest.MonkeyPatch) -> None:
    """The position is advanced beyond the events that were read."""
    real = OutboxQueries.relay

    def relay(self: OutboxQueries, connection: Any, position: int, upto: int, now: int, encode: Any) -> int:
        reached = real(self, connection, position, upto, now, encode)
        connection.exec_driver_sql("UPDATE webhooks SET relayed_seq = relayed_seq + 1 WHERE relayed_seq % 3 = 0")
        return reached

    patch.setattr(OutboxQueries, "relay", relay)


def timeout_taken_for_delivery(patch: pytest.MonkeyPatch) -> None:
    """A webhook that did not answer counts as delivered."""

    def believe(delivery: Any, answer: Any, now: int, *rest: Any) -> Result:
        if answer.attempt.error is not None:
            return Result(delivery, answer.attempt, "done", now, attempts=delivery.attempts + 1)
        return judge(delivery, answer, now, *rest)

    patch.setattr(deliverer, "judge", believe)


EVERY: dict[str, Mutate] = {
    mutate.__name__: mutate
    for mutate in (
        unknown_outcome_reported_as_refusal,
        refused_commit_reported_as_success,
        repeat_taken_for_another_request,
        key_forgotten,
        replay_says_sold_out,
        units_returned_twice,
        payment_under_way_cancelled,
        settling_hold_expires,
        overdue_returned_before_deadline,
        expirer_gives_up_a_pool,
        lost_reply_taken_for_decline,
        lost_reply_taken_for_capture,
        lost_lookup_taken_for_unknown_payment,
        charged_under_a_new_key,
        order_not_written,
        wallet_not_debited,
        lease_never_ends,
        failed_settlement_dropped,
        clock_step_believed,
        start_believes_the_store,
        ledger_not_compared,
        charges_not_looked_for,
        place_not_stored,
        called_too_fast,
        pass_before_the_call,
        relay_marks_ahead,
        timeout_taken_for_delivery,
    )
}
