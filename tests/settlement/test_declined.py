"""A declined payment keeps the units until the deadline, and the buyer may pay again: on every engine."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from settle_harness import PRICE, SALE, SKU, Providers, SettleHarness
from settle_money import REMOTE, check_money
from settle_sandbox import Sandbox

from holdfast.domain.sale.sale import AfterAttempts, Sale, payment_key_of
from holdfast.domain.sale.settling_case import PaymentStatus as P
from holdfast.domain.sale.settling_case import ProviderReplied, Work
from holdfast.domain.stock.command import Move, Reserve, Transition, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.errors import OutcomeUnknown
from holdfast.ledger.events.declined import declined_payment
from holdfast.ledger.money.payment_notes import Method, last_decline, note_method
from holdfast.ledger.money.refunds import Wanted, enter
from holdfast.ledger.tables.money import payments, refunds, settlements
from holdfast.ledger.tables.sales import orders
from holdfast.ledger.tables.stock import events, pools, reservations
from holdfast.payments.port import Payment, PaymentProvider, PaymentState
from holdfast.settlement.parked import Parked

pytest_plugins = ("settle_fixtures",)

WALLET = replace(SALE, payment_attempts_max=3)
CARD = replace(REMOTE, payment_attempts_max=3)


class Contradicting:
    """A provider whose answers to look-ups a test decides."""

    def __init__(self, provider: PaymentProvider) -> None:
        self._provider = provider
        self.said: dict[str, Payment | Exception | None] = {}
        self.looked_up: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        self.looked_up.append(key)
        if key not in self.said:
            return await self._provider.look_up(key, reference)
        said = self.said[key]
        if isinstance(said, Exception):
            raise said
        return said


async def note(harness: SettleHarness, reservation_id: str, method: str, attempt: int) -> None:
    """As a buyer who chooses a card before paying."""
    chosen = Method(method)
    await harness.database.write(lambda c: note_method(c, CARD, reservation_id, "ada", 1, chosen, 1, attempt))


async def pay(harness: SettleHarness, reservation_id: str) -> Verdict:
    [verdict] = await harness.apply(SKU, Move(Transition.SETTLE, reservation_id))
    await harness.drain()
    return verdict


async def bought_with(harness: SettleHarness, method: str, sale: Sale = CARD) -> str:
    """A reservation whose first payment is about to begin."""
    await harness.open_sale(1, sale)
    bought = new_reservation_id(SKU, "ada")
    await note(harness, bought, method, 1)
    await harness.buy_all([Reserve(bought, "ada", 1, 1, settle=True)])
    return bought


async def keys_of(harness: SettleHarness) -> list[tuple[str, str]]:
    return [(row.payment_key, row.state) for row in sorted(await harness.rows(payments), key=lambda r: r.attempt)]


# --- the buyer tries again


async def test_a_top_up_pays_for_what_the_wallet_could_not(harness: SettleHarness) -> None:
    await harness.open_sale(1, WALLET)
    bought, settler = await harness.buy("ada"), harness.settler()
    await harness.settle_all(settler)
    held = await harness.one(reservations)
    assert (held.status, held.attempts) == ("active", 1)
    refused = await harness.apply(SKU, Reserve(new_reservation_id(SKU, "bob"), "bob", 1, 1))
    assert refused[0].outcome is Outcome.ALL_HELD
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    assert (await pay(harness, bought)).outcome is Outcome.MOVED
    await harness.settle_all(settler)
    assert (await harness.one(orders)).reservation_id == bought
    paid = await harness.one(reservations)
    assert (paid.status, paid.attempts, paid.expires_at) == ("confirmed", 2, held.expires_at)
    assert await keys_of(harness) == [(payment_key_of(bought), "declined"), (payment_key_of(bought, 2), "captured")]


async def test_another_card_pays_and_the_declined_one_is_never_charged(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    bought, settler = await bought_with(harness, "pm_decline"), harness.settler(providers)
    await harness.settle_all(settler)
    declined = await harness.database.read(lambda c: last_decline(c, bought))
    assert declined is not None
    assert declined.reason == "card_declined"
    await note(harness, bought, "pm_ok", 2)
    await pay(harness, bought)
    await harness.settle_all(settler)
    books = sandbox.books()
    assert [books[payment_key_of(bought, n)]["captures"] for n in (1, 2)] == [0, 1]
    assert (await harness.one(orders)).payment == "sandbox"
    [order], paid = await harness.rows(orders), [row for row in await harness.rows(payments) if row.state == "captured"]
    assert [(row.reservation_id, row.amount) for row in paid] == [(order.reservation_id, order.amount)]


async def test_the_decline_is_told_with_its_reason(harness: SettleHarness, providers: Providers) -> None:
    bought = await bought_with(harness, "pm_decline")
    await harness.settle_all(harness.settler(providers))
    [told] = [row for row in await harness.rows(events) if row.type == "payment.declined"]
    said = declined_payment(told.facts)
    assert said is not None
    assert (told.reservation_id, said.reason, said.attempt, said.amount) == (bought, "card_declined", 1, PRICE)
    types = [row.type for row in await harness.rows(events) if row.reservation_id == bought]
    assert types[-2:] == ["payment.declined", "reservation.reopened"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_provider_that_repeats_the_decline_does_not_announce_it_again(
    harness: SettleHarness, providers: Providers
) -> None:
    bought, settler = await bought_with(harness, "pm_decline"), harness.settler(providers)
    await harness.settle_all(settler)
    before = [row.type for row in await harness.rows(events)]
    assert await harness.audit(settler, providers).hint(payment_key_of(bought))
    await harness.settle_all(settler)
    assert [row.type for row in await harness.rows(events)] == before
    assert before.count("payment.declined") == 1


async def test_what_was_declined_can_be_cancelled_or_expires(harness: SettleHarness) -> None:
    await harness.open_sale(2, WALLET)
    first, second = await harness.buy("ada"), new_reservation_id(SKU, "bob")
    await harness.buy_all([Reserve(second, "bob", 1, 1, 60_000, settle=True)])
    await harness.settle_all(harness.settler())
    [cancelled] = await harness.apply(SKU, Move(Transition.CANCEL, first))
    assert cancelled.outcome is Outcome.MOVED
    await harness.drain()
    await harness.settle_all(harness.settler())
    states = {row.reservation_id: row.status for row in await harness.rows(reservations)}
    assert states == {first: "cancelled", second: "active"}
    assert (await harness.one(pools)).held == 1


async def test_a_payment_declined_after_the_deadline_returns_the_units(harness: SettleHarness) -> None:
    await harness.open_sale(1, WALLET)
    bought = new_reservation_id(SKU, "ada")
    await harness.buy_all([Reserve(bought, "ada", 1, 1, 1, settle=True)])
    await asyncio.sleep(0.002)
    await harness.settle_all(harness.settler())
    assert (await harness.one(reservations)).status == "failed"
    assert (await harness.one(pools)).held == 0


# --- after the last attempt


async def test_the_last_decline_returns_the_units_once_a_look_up_proves_that_no_money_moved(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    provider = Contradicting(providers["sandbox"])
    settler = harness.settler({"sandbox": provider})
    bought = await bought_with(harness, "pm_decline")
    for attempt in (1, 2):
        await harness.settle_all(settler)
        assert (await harness.one(reservations)).attempts == attempt
        await pay(harness, bought)
    assert provider.looked_up == []
    last = payment_key_of(bought, 3)
    provider.said[last] = OutcomeUnknown("no reply")
    await settler.settle_all()
    await harness.make_due()
    await settler.settle_all()
    assert ((await harness.one(reservations)).status, (await harness.one(pools)).held) == ("settling", 1)
    assert set(provider.looked_up) == {last}
    provider.said.clear()
    await harness.settle_all(settler)
    assert ((await harness.one(reservations)).status, (await harness.one(pools)).held) == ("failed", 0)
    await check_money(harness, sandbox)


async def test_a_look_up_that_finds_the_money_sells_the_units(harness: SettleHarness, providers: Providers) -> None:
    bought = await bought_with(harness, "pm_decline", replace(CARD, payment_attempts_max=1))
    provider, key = Contradicting(providers["sandbox"]), payment_key_of(bought)
    provider.said[key] = Payment(key, PaymentState.CAPTURED, amount=PRICE)
    await harness.settle_all(harness.settler({"sandbox": provider}))
    assert ((await harness.one(reservations)).status, (await harness.one(payments)).state) == ("confirmed", "captured")
    assert (await harness.one(orders)).reservation_id == bought


@pytest.mark.parametrize("kind", ["wallet", "card"])
async def test_the_last_decline_may_wait_for_a_person(harness: SettleHarness, providers: Providers, kind: str) -> None:
    limits = {"payment_attempts_max": 1, "after_attempts": AfterAttempts.PARK}
    settler = harness.settler(providers)
    if kind == "card":
        bought = await bought_with(harness, "pm_decline", replace(CARD, **limits))
    else:
        await harness.open_sale(1, replace(WALLET, **limits))
        bought = await harness.buy("ada")
    await harness.settle_all(settler)
    work = await harness.one(settlements)
    assert (work.state, "attempt 1" in work.reason) == ("parked", True)
    assert ((await harness.one(reservations)).status, (await harness.one(pools)).held) == ("settling", 1)
    parked = Parked(harness.database, settler, providers)
    await parked.retry(f"settlement:{bought}")
    await harness.settle_all(settler)
    assert (await harness.one(settlements)).state == "parked"
    await parked.drop(f"settlement:{bought}", "ops")
    await harness.settle_all(settler)
    assert ((await harness.one(reservations)).status, (await harness.one(pools)).held) == ("failed", 0)


# --- late, twice, out of order


async def test_a_worker_that_was_asleep_cannot_decline_the_next_attempt(
    harness: SettleHarness, providers: Providers
) -> None:
    bought, settler, posting = await bought_with(harness, "pm_decline"), harness.settler(providers), harness.posting()
    first = (await harness.database.write(lambda c: posting.queries.lease(c, SKU, 1 << 50, 1, 9)))[0]
    await harness.make_due()
    await harness.settle_all(settler)
    await pay(harness, bought)
    late = ProviderReplied(P.DECLINED, PRICE)
    [nothing] = await harness.database.write(lambda c: posting.settle(c, SKU, [(first, late)]))
    assert nothing is None
    assert (await harness.one(reservations)).status == "settling"
    # Control: the same words from the worker that has the lease do decline it.
    current = (await harness.database.write(lambda c: posting.queries.lease(c, SKU, 1 << 50, 1, 9)))[0]
    [declined] = await harness.database.write(lambda c: posting.settle(c, SKU, [(current, late)]))
    assert declined is not None
    assert declined.case.ending is Transition.REOPEN
    await harness.make_due()
    await harness.settle_all(settler)


@pytest.mark.parametrize("place", ["redis"], indirect=True)
async def test_a_late_notice_of_the_first_decline_leaves_the_second_payment_alone(harness: SettleHarness) -> None:
    """The worker that declined the first attempt hears nothing from the gate, and notifies it again."""
    await harness.open_sale(1, WALLET)
    bought, posting = await harness.buy("ada"), harness.posting()
    [record] = await harness.database.write(lambda c: posting.settle_due(c, SKU, 9))
    assert (record.case.work, record.case.ending) == (Work.NOTIFYING, Transition.REOPEN)
    reopen = Move(Transition.REOPEN, bought, attempt=1)
    settle = Move(Transition.SETTLE, bought)
    outcomes = [(await harness.apply(SKU, command))[0].outcome for command in (reopen, settle, reopen)]
    assert outcomes == [Outcome.MOVED, Outcome.MOVED, Outcome.ALREADY]
    await harness.drain()
    await harness.wallet.credit("ada", PRICE, "EUR", "k")
    await harness.settle_all(harness.settler())
    assert (await harness.one(orders)).reservation_id == bought


@pytest.mark.parametrize("place", ["redis"], indirect=True)
async def test_control_without_the_number_of_the_attempt_a_late_notice_would_release_the_units(
    harness: SettleHarness,
) -> None:
    await harness.open_sale(1, WALLET)
    bought, settle = await harness.buy("ada"), Move(Transition.SETTLE, "")
    await harness.settle_all(harness.settler())
    await harness.apply(SKU, replace(settle, reservation_id=bought))
    [released] = await harness.apply(SKU, Move(Transition.REOPEN, bought, attempt=2))
    assert released.outcome is Outcome.MOVED
    await harness.drain()


@pytest.mark.parametrize("then", ["paid", "active"])
async def test_money_that_a_provider_took_after_declining_it_goes_back(
    harness: SettleHarness, providers: Providers, then: str
) -> None:
    provider = Contradicting(providers["sandbox"])
    contradicting: Any = {"sandbox": provider}
    bought, settler = await bought_with(harness, "pm_decline"), harness.settler(contradicting)
    await harness.settle_all(settler)
    if then == "paid":
        await note(harness, bought, "pm_ok", 2)
        await pay(harness, bought)
        await harness.settle_all(settler)
    key = payment_key_of(bought)
    provider.said[key] = Payment(key, PaymentState.CAPTURED, amount=PRICE)
    assert await harness.audit(settler, contradicting).hint(key)
    await harness.settle_all(settler)
    owed = await harness.one(refunds)
    cause = {"paid": "paid_twice", "active": "paid_too_late"}[then]
    assert (owed.payment_key, owed.amount, owed.cause) == (key, PRICE, cause)
    status = {"paid": "confirmed", "active": "active"}[then]
    assert (await harness.one(reservations)).status == status
    if then == "active":
        await note(harness, bought, "pm_ok", 2)
        await pay(harness, bought)
        await harness.settle_all(settler)
    order = await harness.one(orders)
    assert order.reservation_id == bought
    # The order is paid with the other card, whose money an order's refund gives back.
    assert await keys_of(harness) == [(key, "captured"), (payment_key_of(bought, 2), "captured")]
    assert [row.payment_key for row in await harness.rows(refunds)] == [key]
    back = await harness.database.write(lambda c: enter(c, "refund", Wanted(order.order_id, "k"), 1))
    assert {row.payment_key for row in await harness.rows(refunds)} == {key, payment_key_of(bought, 2)}
    assert back.amount == PRICE


@pytest.mark.parametrize("said", [PaymentState.VOIDED, PaymentState.DECLINED, None])
async def test_an_earlier_payment_without_money_leaves_the_next_attempt_alone(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers, said: PaymentState | None
) -> None:
    """The buyer pays again while the first payment waits to be looked up."""
    provider = Contradicting(providers["sandbox"])
    contradicting: Any = {"sandbox": provider}
    bought, settler = await bought_with(harness, "pm_decline"), harness.settler(contradicting)
    await harness.settle_all(settler)
    first, second = payment_key_of(bought), payment_key_of(bought, 2)
    provider.said[first] = Payment(first, PaymentState.AUTHORISED, amount=PRICE)
    assert await harness.audit(settler, contradicting).hint(first)
    await note(harness, bought, "pm_ok", 2)
    await pay(harness, bought)
    provider.said[first] = None if said is None else Payment(first, said, amount=PRICE)
    await harness.settle_all(settler)
    assert first in provider.looked_up
    assert (await harness.one(reservations)).status == "confirmed"
    assert dict(await keys_of(harness)) == {first: said or "new", second: "captured"}
    assert [sandbox.books()[key]["captures"] for key in (first, second)] == [0, 1]


async def test_a_crowd_that_tries_again_and_again_is_charged_once_each(
    harness: SettleHarness, sandbox: Sandbox, providers: Providers
) -> None:
    """Half of all payments are declined, replies are lost, and three workers share the work."""
    sandbox.faults(seed=7, decline=0.5, lost_reply=0.1)
    await harness.open_sale(12, CARD)
    names = [f"buyer-{number}" for number in range(12)]
    reserves = [Reserve(new_reservation_id(SKU, name), name, 1, 1, settle=True) for name in names]
    await harness.buy_all(reserves)
    for _ in range(CARD.payment_attempts_max):
        await asyncio.gather(*[harness.settle_all(harness.settler(providers, attempts_max=40)) for _ in range(3)])
        active = [row for row in await harness.rows(reservations) if row.status == "active"]
        await asyncio.gather(*[pay(harness, row.reservation_id) for row in active for _ in range(2)])
    states = {row.reservation_id: (row.status, row.attempts) for row in await harness.rows(reservations)}
    assert {status for status, _ in states.values()} <= {"confirmed", "failed"}
    assert 1 < max(attempts for _, attempts in states.values()) <= CARD.payment_attempts_max
    books = sandbox.books()
    for reserve in reserves:
        captures = [books[key]["captures"] for key in _keys(reserve.reservation_id) if key in books]
        assert sum(captures) == (states[reserve.reservation_id][0] == "confirmed")


def _keys(reservation_id: str) -> list[str]:
    return [payment_key_of(reservation_id, attempt) for attempt in (1, 2, 3)]
