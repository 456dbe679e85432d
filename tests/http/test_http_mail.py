"""Mail over a whole sale: each kind once, in each buyer's language, until they end it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope
from http_calling import eventually, problem_of
from http_rooms import person
from http_sales import Store, body_of, store_of
from http_serving import started
from http_tokens import buyer_token

from holdfast.lab.load.engines import free_port


class Receiver:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802 - as aiosmtpd calls it
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"

    def to(self, name: str) -> list[str]:
        return [mail["Subject"] for mail in self.mails if mail["To"] == f"{name}@example.com"]


@contextmanager
def receiving() -> Iterator[tuple[Receiver, int]]:
    receiver, port = Receiver(), free_port()
    controller = Controller(receiver, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield receiver, port
    finally:
        controller.stop()


def _soon(look: Callable[[], object]) -> None:
    eventually(look)


def _contact(store: Store, buyer: str, **more: object) -> dict[str, Any]:
    with store.server.connect(buyer_token(buyer)) as client:
        return body_of(client.put("/v1/me/contact", json={"email": f"{buyer}@example.com"} | more))


def _pay(client: httpx.Client, reservation_id: str) -> None:
    assert client.post(f"/v1/reservations/{reservation_id}/confirm").status_code == 202


@pytest.mark.slow
def test_every_kind_of_mail_is_sent_once_over_a_whole_sale(tmp_path: Path) -> None:
    with receiving() as (got, port):
        settings = {"SMTP_URL": f"smtp://127.0.0.1:{port}", "PUBLIC_URL": "https://shop.example"}
        with started(tmp_path, settings=settings) as server:
            store, other = store_of(server), store_of(server)
            _contact(store, "ada")
            _contact(store, "bob", locale="de", next_sale=True)
            _contact(store, "eve")
            store.open(total_units=1, room={"mode": "fifo", "rate_per_second": 1, "pass_seconds": 60})
            _buy_all(store, got)
            _soon(lambda: "Ausverkauft: Drop" in got.to("bob"))
            _decline_once_and_for_all(other, got)
            _soon(lambda: "Der nächste Verkauf: Drop" in got.to("bob"))
            _end_messages(store, got)
        kinds = Counter((mail["To"], mail["Subject"].partition(":")[0].split()[0]) for mail in got.mails)
        assert set(kinds.values()) == {1}, kinds
        assert {kind for address, kind in kinds if address == "ada@example.com"} == {"It", "Payment", "Order", "Refund"}


def _buy_all(store: Store, got: Receiver) -> None:
    client = store.server.client
    with person(store, "ada") as ada, person(store, "bob") as bob:
        body_of(ada.join())
        body_of(bob.join())
        _soon(lambda: "It is your turn: Drop" in got.to("ada"))
        held = body_of(ada.buy(ada.await_pass()), 201)["reservation_id"]
        _pay(ada.client, held)
        _soon(lambda: "Payment declined: Drop" in got.to("ada"))
        credit = {"amount": 10_000, "currency": "EUR", "idempotency_key": "c"}
        body_of(client.post("/v1/wallets/ada/credit", json=credit))
        _pay(ada.client, held)
        _soon(lambda: [each for each in got.to("ada") if each.startswith("Order")])
        [order] = body_of(ada.client.get("/v1/orders"))["data"]
        assert f"Order {order['number']} confirmed: Drop" in got.to("ada")
    refund = client.post(f"/v1/orders/{order['order_id']}/refund", json={}, headers={"Idempotency-Key": "r"})
    assert refund.is_success, refund.text
    _soon(lambda: f"Refund for order {order['number']}: Drop" in got.to("ada"))


def _decline_once_and_for_all(store: Store, got: Receiver) -> None:
    store.open(payment_attempts_max=1)
    with store.buyer("eve") as eve:
        _pay(eve.client, body_of(eve.purchase(), 201)["reservation_id"])
        _soon(lambda: [each for each in got.to("eve") if "cancelled" in each])


def _end_messages(store: Store, got: Receiver) -> None:
    """By one click and without signing in; looking at the page ends nothing."""
    mail = next(mail for mail in got.mails if mail["To"] == "bob@example.com")
    path = urlsplit(mail["List-Unsubscribe"].strip("<>")).path
    with store.server.connect() as anyone, store.buyer("bob") as bob:
        assert anyone.get(path).status_code == 200
        assert body_of(bob.client.get("/v1/me/contact"))["next_sale"] is False
        ended = anyone.post(path, data={"List-Unsubscribe": "One-Click"})
        assert (ended.status_code, "Messages stopped" in ended.text) == (200, True)
        problem_of(bob.client.get("/v1/me/contact"), 404, "contact_not_found")
        assert anyone.post(f"{path}x").status_code == 404
    log = body_of(store.server.client.get("/v1/ops/messages", params={"buyer_id": "ada"}))["data"]
    _soon(lambda: {one["state"] for one in log} == {"sent"})
