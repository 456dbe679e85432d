"""A buyer who confirms again after a decline names the card: the declined one is never charged in silence."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from settle_harness import SKU, Providers, SettleHarness
from settle_money import REMOTE
from test_declined import WALLET, bought_with

from holdfast.checkout.holds import Denied, Holds
from holdfast.checkout.payment_methods import PaymentMethods
from holdfast.domain.sale.sale import Sale
from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, new_reservation_id
from holdfast.ledger.money.payment_notes import Method
from holdfast.ledger.stock.queries import find_reservation
from holdfast.ledger.tables.money import payments

pytest_plugins = ("settle_fixtures",)

CARD = replace(REMOTE, payment_attempts_max=3)


class Buyer:
    """A buyer's requests, decided by the real gate."""

    def __init__(self, harness: SettleHarness, sale: Sale = CARD) -> None:
        self._harness = harness
        # What a look at the reservation gives, if not what it is now.
        self.sees: Reservation | None = None
        catalogue: Any = SimpleNamespace(sale_of=lambda _: sale)
        self.holds = Holds(self.find, catalogue, self, PaymentMethods(harness.database), lambda: None)  # type: ignore[arg-type]

    async def find(self, reservation_id: str) -> Reservation | None:
        return self.sees or await self._harness.database.read(lambda c: find_reservation(c, reservation_id, 1))

    async def submit(self, sku_id: str, command: Any) -> Verdict:
        [verdict] = await self._harness.apply(sku_id, command)
        await self._harness.drain(sku_id)
        return verdict

    async def confirm(self, reservation_id: str, card: str | None = None) -> Verdict | Denied:
        async def wait(answer: Any) -> Any:
            return await answer

        return await self.holds.pay(reservation_id, "ada", None if card is None else Method(card), wait)


async def charged_cards(harness: SettleHarness) -> list[str | None]:
    return [row.method for row in sorted(await harness.rows(payments), key=lambda row: row.attempt)]


async def test_after_a_decline_the_card_is_charged_again_only_if_it_is_named(
    harness: SettleHarness, providers: Providers
) -> None:
    bought, settler = await bought_with(harness, "pm_decline"), harness.settler(providers)
    await harness.settle_all(settler)
    buyer = Buyer(harness)
    assert await buyer.confirm(bought) is Denied.METHOD_REQUIRED
    await harness.settle_all(settler)
    held = await buyer.find(bought)
    assert held is not None
    assert (held.attempts, await charged_cards(harness)) == (1, ["pm_decline"])
    for card in ("pm_decline", "pm_ok"):
        again = await buyer.confirm(bought, card)
        assert isinstance(again, Verdict)
        assert again.outcome is Outcome.MOVED
        await harness.settle_all(settler)
    assert await charged_cards(harness) == ["pm_decline", "pm_decline", "pm_ok"]


@pytest.mark.parametrize("card", [None, "pm_ok"])
async def test_a_repeat_while_the_payment_runs_starts_no_other(
    card: str | None, harness: SettleHarness, providers: Providers
) -> None:
    """Even if the decline comes between its look at the reservation and the gate."""
    bought, settler = await bought_with(harness, "pm_decline"), harness.settler(providers)
    buyer = Buyer(harness)
    buyer.sees = await buyer.find(bought)
    await harness.settle_all(settler)
    repeat = await buyer.confirm(bought, card)
    assert isinstance(repeat, Verdict)
    assert repeat.outcome is Outcome.ALREADY
    await harness.settle_all(settler)
    assert await charged_cards(harness) == ["pm_decline"]


@pytest.mark.parametrize("card", [None, "pm_ok"])
async def test_a_payment_that_was_declined_meanwhile_is_not_begun_again(
    card: str | None, harness: SettleHarness, providers: Providers
) -> None:
    """Another request of the buyer was quicker, and nobody named a card for the next attempt."""
    await harness.open_sale(1, CARD)
    buyer, settler, bought = Buyer(harness), harness.settler(providers), new_reservation_id(SKU, "ada")
    await harness.buy_all([Reserve(bought, "ada", 1, 1)])
    before = await buyer.find(bought)
    await buyer.confirm(bought, "pm_decline")
    await harness.settle_all(settler)
    buyer.sees = before
    assert await buyer.confirm(bought, card) is Denied.METHOD_REQUIRED
    await harness.settle_all(settler)
    assert await charged_cards(harness) == ["pm_decline"]


async def test_a_wallet_and_a_payment_without_a_card_are_tried_again_as_before(harness: SettleHarness) -> None:
    await harness.open_sale(1, WALLET)
    bought = await harness.buy("ada")
    await harness.settle_all(harness.settler())
    again = await Buyer(harness, WALLET).confirm(bought)
    assert isinstance(again, Verdict)
    assert again.outcome is Outcome.MOVED
