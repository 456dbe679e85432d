"""The units of one address: a purchase and its retry are one, whatever became of the first request."""

import pytest
from msgspec.structs import replace

from holdfast.checkout.address_limits import AddressLimits
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale
from holdfast.domain.stock.command import Provision, Reserve, Verdict
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.errors import Unavailable
from holdfast.gate.sql import SqlGate
from holdfast.http.contract.message import ClientDisconnected
from holdfast.ledger.engine.database import Database

SALE = Sale(
    sale_id="drop",
    sku_id="sneaker",
    name="Drop",
    price_amount=4_999,
    currency="EUR",
    starts_at=0,
    checkout=Checkout.CART,
    payment=PaymentKind.EXTERNAL,
    units_per_address=1,
)
HOME = "203.0.113.7"


def purchase(owner: str = "ada", key: str = "k", quantity: int = 1) -> Reserve:
    return Reserve(new_reservation_id("sneaker", owner), owner, quantity, 1, key=key, sale_id="drop")


async def disconnect() -> Verdict:
    raise ClientDisconnected


async def test_the_retry_of_a_purchase_whose_client_disconnected_is_not_one_more(database: Database) -> None:
    limits = AddressLimits(database)
    first = purchase()
    assert await limits.take(SALE, HOME, first)
    with pytest.raises(ClientDisconnected):
        await limits.decided(first, disconnect)
    # It may still be granted, so it counts against everything else.
    for other in (purchase(key="another"), purchase(owner="eve"), purchase(owner="a", key="dak")):
        assert not await limits.take(SALE, HOME, other)
    assert await limits.take(SALE, HOME, purchase())


async def test_what_was_granted_under_a_key_counts_for_that_key_too(database: Database) -> None:
    limits, gate = AddressLimits(database), SqlGate(database)
    first = purchase()
    await gate.apply("sneaker", [Provision(5)])
    assert await limits.take(SALE, HOME, first)
    await gate.apply("sneaker", [first])
    assert not await limits.take(SALE, HOME, purchase())


async def test_a_grant_is_answered_even_if_its_units_cannot_be_corrected(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, gate = AddressLimits(database), SqlGate(database)
    sale, wanted = replace(SALE, units_per_address=3), purchase(quantity=3)
    await gate.apply("sneaker", [Provision(2)])
    assert await limits.take(sale, HOME, wanted)

    async def decide() -> Verdict:
        [verdict] = await gate.apply("sneaker", [wanted])
        monkeypatch.setattr(database, "write", refuse)
        return verdict

    async def refuse(*_: object) -> None:
        raise Unavailable("the disk is full")

    verdict = await limits.decided(wanted, decide)
    assert verdict.reservation is not None
    assert verdict.reservation.quantity == 2
