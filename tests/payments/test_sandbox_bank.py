"""The sandbox's card whose bank asks the buyer."""

import msgspec
import pytest
from stages import new_charge

from holdfast.lab.sandbox.entry import Entry
from holdfast.lab.sandbox.server import SandboxOptions, open_service
from holdfast.lab.sandbox.service import Reply, Service
from holdfast.payments.port import PaymentState


async def answer(service: Service, reference: str, body: bytes = b"", return_to: str = "") -> str:
    method = "POST" if body else "GET"
    reply = await service.answer(method, f"/bank/{reference}", f"return_to={return_to}", body)
    assert isinstance(reply, Reply)
    return reply.body.decode()


@pytest.mark.parametrize(("said", "state"), [("approve", PaymentState.AUTHORISED), ("refuse", PaymentState.DECLINED)])
async def test_a_payment_is_pending_until_the_buyer_answers_once(said: str, state: PaymentState) -> None:
    async with open_service(SandboxOptions()) as service:
        entry = service.ledger.authorise(new_charge("pm_bank"), asks_bank=True)
        assert isinstance(entry, Entry)
        assert entry.payment().needs_buyer
        assert "Confirm your payment" in await answer(service, entry.reference)
        for given in (said, "approve"):
            await answer(service, entry.reference, f"answer={given}".encode())
        found = service.ledger.find(entry.key)
        assert found is not None
        assert (found.state, found.payment().needs_buyer) == (state, False)
        shop = "http://127.0.0.1:8000/s/drop"
        assert f'href="{shop}"' in await answer(service, entry.reference, return_to=shop)
        assert "javascript" not in await answer(service, entry.reference, return_to="javascript:alert(1)")


@pytest.mark.parametrize(("currency", "shown"), [("EUR", "49.99 EUR"), ("JPY", "4,999 JPY"), ("KWD", "4.999 KWD")])
async def test_the_bank_names_the_amount_as_people_write_it(currency: str, shown: str) -> None:
    async with open_service(SandboxOptions()) as service:
        charge = msgspec.structs.replace(new_charge("pm_bank"), currency=currency)
        entry = service.ledger.authorise(charge, asks_bank=True)
        assert isinstance(entry, Entry)
        assert f"Confirm your payment of {shown}?" in await answer(service, entry.reference)
