"""What every payment provider must do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import time

import pytest
from garbage import ANSWERS, answering
from msgspec.structs import replace
from stages import SHORT_S, Stage, new_charge

from holdfast.errors import EngineError, OutcomeUnknown, Unavailable
from holdfast.lab.load.engines import free_port
from holdfast.payments.port import Charge, ListedPayment, Payment, PaymentProvider, PaymentState, RefundRefused
from hostile_server import ATTACKS, attacking, bomb, memory_bounded

# Of one call to a provider that sends as much as it can.
PATIENCE_S = 1.0
MEMORY_MAX = 4 * 1024 * 1024
EVERY_CALL: dict[str, Callable[[PaymentProvider, Charge, Payment], Awaitable[object]]] = {
    "authorise": lambda provider, charge, _: provider.authorise(charge),
    "capture": lambda provider, _, payment: provider.capture(payment),
    "void": lambda provider, _, payment: provider.void(payment),
    "refund": lambda provider, _, payment: provider.refund(payment, 100, "refund-1"),
    "look_up": lambda provider, charge, _: provider.look_up(charge.key),
    "list_since": lambda provider, _charge, _payment: provider.list_since(0),
}


@asynccontextmanager
async def closing(provider: PaymentProvider) -> AsyncIterator[PaymentProvider]:
    try:
        yield provider
    finally:
        await provider.close()


async def listed(provider: PaymentProvider, since: int) -> list[ListedPayment]:
    page = await provider.list_since(since)
    found = list(page.payments)
    while page.next is not None:
        page = await provider.list_since(since, page.next)
        found += page.payments
    return found


class ProviderConformance:
    @pytest.fixture
    async def provider(self, stage: Stage) -> AsyncIterator[PaymentProvider]:
        async with closing(stage.provider()) as provider:
            yield provider

    async def authorised(self, stage: Stage, provider: PaymentProvider, amount: int = 4999) -> Payment:
        payment = await provider.authorise(new_charge(stage.methods["good"], amount))
        assert payment.state is PaymentState.AUTHORISED
        return payment

    async def test_the_same_key_is_the_same_payment(self, stage: Stage, provider: PaymentProvider) -> None:
        charge = new_charge(stage.methods["good"])
        first, second = await provider.authorise(charge), await provider.authorise(charge)
        assert first == second
        assert first.state is PaymentState.AUTHORISED
        assert await stage.captures(charge.key) == [0]

    @pytest.mark.parametrize("amount", [50, 4999, 99_999_999])
    async def test_amounts_are_kept_to_the_cent(self, stage: Stage, provider: PaymentProvider, amount: int) -> None:
        payment = await self.authorised(stage, provider, amount)
        found = await provider.look_up(payment.key)
        assert found == payment
        assert found.amount == amount

    @pytest.mark.parametrize("amount", [0, -1])
    async def test_an_amount_that_is_none_is_never_authorised(
        self, stage: Stage, provider: PaymentProvider, amount: int
    ) -> None:
        charge = new_charge(stage.methods["good"], amount)
        assert (await provider.authorise(charge)).state is PaymentState.DECLINED
        assert await stage.captures(charge.key) == []

    async def test_a_key_does_not_serve_for_another_amount(self, stage: Stage, provider: PaymentProvider) -> None:
        charge = new_charge(stage.methods["good"])
        await provider.authorise(charge)
        other = Charge(charge.key, 1, "EUR", "ada", charge.reservation_id, "sale", charge.method)
        with pytest.raises(OutcomeUnknown):
            await provider.authorise(other)
        found = await provider.look_up(charge.key)
        assert found is not None
        assert found.amount == charge.amount
        assert await stage.captures(charge.key) == [0]

    async def test_a_capture_happens_once_however_often_it_is_asked_for(
        self, stage: Stage, provider: PaymentProvider
    ) -> None:
        payment = await self.authorised(stage, provider)
        answers = await asyncio.gather(*(provider.capture(payment) for _ in range(8)))
        assert {answer.state for answer in answers} == {PaymentState.CAPTURED}
        assert await stage.captures(payment.key) == [1]

    async def test_authorising_again_tells_of_the_capture(self, stage: Stage, provider: PaymentProvider) -> None:
        charge = new_charge(stage.methods["good"])
        await provider.capture(await provider.authorise(charge))
        assert (await provider.authorise(charge)).state is PaymentState.CAPTURED

    async def test_a_void_lets_go_for_good(self, stage: Stage, provider: PaymentProvider) -> None:
        payment = await self.authorised(stage, provider)
        for _ in range(2):
            voided = await provider.void(payment)
            assert (voided.state, voided.refunded) == (PaymentState.VOIDED, 0)
        assert (await provider.capture(payment)).state is PaymentState.VOIDED
        assert await stage.captures(payment.key) == [0]

    async def test_a_void_that_comes_too_late_leaves_it_captured(self, stage: Stage, provider: PaymentProvider) -> None:
        payment = await self.authorised(stage, provider)
        await provider.capture(payment)
        assert (await provider.void(payment)).state is PaymentState.CAPTURED

    async def test_refunds_add_up_to_the_payment_and_no_further(self, stage: Stage, provider: PaymentProvider) -> None:
        payment = await provider.capture(await self.authorised(stage, provider))
        first = await provider.refund(payment, 1000, f"{payment.key}:1")
        assert (first.amount, first.is_done) == (1000, True)
        await provider.refund(payment, 3000, f"{payment.key}:2")
        with pytest.raises(RefundRefused):
            await provider.refund(payment, 1000, f"{payment.key}:3")
        found = await provider.look_up(payment.key)
        assert found is not None
        assert (found.refunded, found.state) == (4000, PaymentState.CAPTURED)

    async def test_a_refund_happens_once_per_key(self, stage: Stage, provider: PaymentProvider) -> None:
        payment = await provider.capture(await self.authorised(stage, provider))
        refunds = [await provider.refund(payment, 1000, f"{payment.key}:1") for _ in range(3)]
        assert len({refund.reference for refund in refunds}) == 1
        with pytest.raises(RefundRefused):
            await provider.refund(payment, 2000, f"{payment.key}:1")
        found = await provider.look_up(payment.key)
        assert found is not None
        assert found.refunded == 1000

    async def test_money_that_was_not_captured_is_not_refunded(self, stage: Stage, provider: PaymentProvider) -> None:
        payment = await self.authorised(stage, provider)
        with pytest.raises(RefundRefused):
            await provider.refund(payment, 1, f"{payment.key}:1")

    async def test_a_declined_card_is_an_answer_with_a_reason(self, stage: Stage, provider: PaymentProvider) -> None:
        charge = new_charge(stage.methods["decline"])
        for _ in range(2):
            declined = await provider.authorise(charge)
            assert (declined.state, declined.reason) == (PaymentState.DECLINED, stage.reason)
        found = await provider.look_up(charge.key)
        assert found is not None
        assert (found.state, found.reason) == (PaymentState.DECLINED, stage.reason)
        assert (await provider.capture(declined)).state is PaymentState.DECLINED
        assert await stage.captures(charge.key) == [0]

    async def test_a_payment_that_is_not_decided_is_pending(self, stage: Stage, provider: PaymentProvider) -> None:
        payment = await provider.authorise(new_charge(stage.methods["pending"]))
        assert payment.state is PaymentState.PENDING
        with pytest.raises(OutcomeUnknown):
            await provider.capture(payment)
        assert await stage.captures(payment.key) == [0]

    async def test_a_charge_whose_reply_was_lost_is_found(self, stage: Stage, provider: PaymentProvider) -> None:
        charge = new_charge(stage.methods["lost_reply"])
        with pytest.raises(OutcomeUnknown):
            await provider.authorise(charge)
        found = await provider.look_up(charge.key)
        assert found is not None
        assert (found.state, found.amount) == (PaymentState.AUTHORISED, charge.amount)
        assert (await provider.capture(found)).state is PaymentState.CAPTURED
        assert await stage.captures(charge.key) == [1]

    async def test_a_capture_whose_reply_was_lost_is_not_done_again(
        self, stage: Stage, provider: PaymentProvider
    ) -> None:
        payment = await provider.authorise(new_charge(stage.lose_capture_reply()))
        with pytest.raises(OutcomeUnknown):
            await provider.capture(payment)
        found = await provider.look_up(payment.key)
        assert found is not None
        assert found.state is PaymentState.CAPTURED
        assert (await provider.capture(payment)).state is PaymentState.CAPTURED
        assert await stage.captures(payment.key) == [1]

    async def test_a_charge_slower_than_our_patience_is_found_later(self, stage: Stage) -> None:
        charge = new_charge(stage.methods["slow"])
        async with closing(stage.provider(timeout_s=SHORT_S)) as impatient:
            await self._connect(impatient)
            with pytest.raises(OutcomeUnknown):
                await impatient.authorise(charge)
            found = await self._found_in_the_end(impatient, charge.key)
        assert found.state is PaymentState.AUTHORISED
        assert await stage.captures(charge.key) == [0]

    async def _connect(self, provider: PaymentProvider) -> None:
        """Over a connection that is open, only an answer can be late: without a connection nothing was sent."""
        async with asyncio.timeout(60.0):
            while True:
                try:
                    await provider.look_up("nobody-asked")
                except EngineError:
                    continue
                return

    async def _found_in_the_end(self, provider: PaymentProvider, key: str) -> Payment:
        async with asyncio.timeout(60.0):
            while True:
                try:
                    found = await provider.look_up(key)
                except OutcomeUnknown:
                    found = None
                if found is not None:
                    return found
                await asyncio.sleep(0.05)

    async def test_a_failure_of_the_provider_is_an_unknown_outcome(
        self, stage: Stage, provider: PaymentProvider
    ) -> None:
        charge = new_charge(stage.methods["error"])
        with pytest.raises(OutcomeUnknown):
            await provider.authorise(charge)
        assert await stage.captures(charge.key) == []

    async def test_a_key_nobody_has_heard_of_gives_nothing(self, provider: PaymentProvider) -> None:
        assert await provider.look_up(new_charge(None).key) is None

    async def test_payments_are_listed_once_each_with_what_they_were_charged_for(
        self, stage: Stage, provider: PaymentProvider
    ) -> None:
        before = int(time() * 1000) - 2_000
        about = {"purchase_key": "cart-7", "purchase_fingerprint": "1/1/sale", "ledger_mark": "a1b2.7.digest"}
        known = replace(new_charge(stage.methods["good"]), **about)
        captured = await provider.capture(await provider.authorise(known))
        others = [await self.authorised(stage, provider) for _ in range(60)]
        found = await listed(provider, before)
        keys = [each.charge.key for each in found]
        assert len(keys) == len(set(keys))
        assert {known.key, *(other.key for other in others)} <= set(keys)
        [mine] = [each for each in found if each.charge.key == known.key]
        assert mine.payment == captured
        assert mine.created_at >= before
        assert replace(mine.charge, method=None) == replace(known, method=None)
        assert await listed(provider, before + 3_600_000) == []

    async def test_another_process_finds_the_payment_and_goes_on(self, stage: Stage, provider: PaymentProvider) -> None:
        payment = await self.authorised(stage, provider)
        stage.catch_up()
        async with closing(stage.provider()) as other:
            assert await other.look_up(payment.key) == payment
            await other.capture(Payment(payment.key, payment.state))
        assert await stage.captures(payment.key) == [1]

    @pytest.mark.parametrize("call", EVERY_CALL)
    async def test_a_provider_that_is_not_there_is_unavailable(self, stage: Stage, call: str) -> None:
        async with closing(stage.provider(f"http://127.0.0.1:{free_port()}")) as provider:
            with pytest.raises(Unavailable):
                await EVERY_CALL[call](provider, new_charge("pm_card"), Payment("k", PaymentState.CAPTURED, "pi_1"))

    @pytest.mark.parametrize("call", EVERY_CALL)
    @pytest.mark.parametrize("answer", ANSWERS)
    async def test_an_answer_that_makes_no_sense_is_not_believed(self, stage: Stage, call: str, answer: str) -> None:
        async with answering(ANSWERS[answer]) as url, closing(stage.provider(url)) as provider:
            with pytest.raises(OutcomeUnknown):
                await EVERY_CALL[call](provider, new_charge("pm_card"), Payment("k", PaymentState.CAPTURED, "pi_1"))

    @pytest.mark.parametrize("call", ["authorise", "look_up"])
    @pytest.mark.parametrize("attack", ATTACKS)
    async def test_an_answer_that_drips_never_ends_or_explodes_costs_little_time_and_memory(
        self, stage: Stage, call: str, attack: str
    ) -> None:
        bomb()
        payment = Payment("k", PaymentState.CAPTURED, "pi_1")
        async with (
            attacking(ATTACKS[attack]) as url,
            closing(stage.provider(url, PATIENCE_S)) as provider,
            memory_bounded(MEMORY_MAX),
            asyncio.timeout(60 * PATIENCE_S),
        ):
            with pytest.raises(OutcomeUnknown):
                await EVERY_CALL[call](provider, new_charge("pm_card"), payment)
