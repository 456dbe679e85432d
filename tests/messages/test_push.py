"""Notifications reach a browser once, encrypted for it: against a real receiver that decrypts as a browser does."""

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import AsyncMock
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc import jwt
from joserfc.jwk import ECKey
from sqlalchemy import update

from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.errors import SettingsError, Unavailable
from holdfast.ledger.engine.database import Database
from holdfast.ledger.messages.contacts import Contact, delete_contact, put_contact
from holdfast.ledger.messages.devices import (
    DEVICES_MAX,
    Device,
    count_devices,
    device_id_of,
    devices_of,
    put_device,
)
from holdfast.ledger.messages.message_log import MAIL, PUSH, Message, NewMessage, add_messages, list_messages
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.tables.messages import messages
from holdfast.messages.addressing import Addresses
from holdfast.messages.letters import Letters
from holdfast.messages.push.encryption import encrypt, from_base64url, public_bytes, to_base64url
from holdfast.messages.push.pusher import Pusher
from holdfast.messages.push.vapid import VapidKey, check_push
from holdfast.runtime.outgoing.poster import Posted, Poster
from receiver import Received, Receiver, Reply, receiving

FAR = 2**45
LETTERS = Letters(None, "https://shop.example")
KEY = VapidKey("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "mailto:ops@shop.example")
SALE = Sale(
    sale_id="drop", sku_id="sneaker", name="Tide", price_amount=4_999, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET, state=SaleState.READY,
)  # fmt: skip


class Browser:
    """The other side of RFC 8291, written from the receiver's part of it."""

    def __init__(self) -> None:
        self._key, self._auth = generate_private_key(SECP256R1()), b"0123456789abcdef"
        self.public, self.auth = to_base64url(public_bytes(self._key)), to_base64url(self._auth)

    def device(self, buyer: str, endpoint: str) -> Device:
        return Device(device_id_of(endpoint), buyer, endpoint, self.public, self.auth)

    def read(self, received: Received) -> dict[str, Any]:
        return dict(json.loads(_decrypt(received.body, self._key, self._auth)))


def _decrypt(body: bytes, key: EllipticCurvePrivateKey, auth: bytes) -> bytes:
    salt, sender = body[:16], body[21 : 21 + body[20]]
    shared = key.exchange(ECDH(), EllipticCurvePublicKey.from_encoded_point(SECP256R1(), sender))
    info = b"WebPush: info\0" + public_bytes(key) + sender
    secret = HKDF(SHA256(), 32, auth, info).derive(shared)
    content_key = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\0").derive(secret)
    nonce = HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\0").derive(secret)
    padded = AESGCM(content_key).decrypt(nonce, body[21 + body[20] :], None)
    assert padded.rstrip(b"\0")[-1:] == b"\x02"
    return padded.rstrip(b"\0")[:-1]


@asynccontextmanager
async def pushing(
    database: Database, *, private: bool = True, letters: Letters = LETTERS, **more: Any
) -> AsyncIterator[Pusher]:
    poster = Poster(private=private, timeout_s=30.0)
    try:
        yield Pusher(database, poster, KEY, letters, **more)
    finally:
        await poster.close()


async def ask(database: Database, browser: Browser, endpoint: str, kind: str = "your_turn") -> None:
    def work(connection: Any) -> None:
        now, device = database.now_ms(connection), browser.device("ada", endpoint)
        put_contact(connection, Contact("ada", None, "de"), now)
        put_device(connection, device, now)
        new = NewMessage("ada", "drop", kind, PUSH, "7", {}, FAR, device.device_id)
        assert add_messages(connection, [new], now) == 1
        assert add_messages(connection, [new], now) == 0

    await database.write(lambda c: insert_sale(c, SALE))
    await database.write(work)


async def add(database: Database, kind: str, endpoint: str) -> None:
    """Another message to ada, in a browser with this endpoint."""

    def work(connection: Any) -> None:
        now, device = database.now_ms(connection), Browser().device("ada", endpoint)
        put_device(connection, device, now)
        add_messages(connection, [NewMessage("ada", "drop", kind, PUSH, "8", {}, FAR, device.device_id)], now)

    await database.write(work)


async def log(database: Database) -> list[Message]:
    found, _ = await database.read(lambda c: list_messages(c, limit=100))
    return found


def test_the_example_of_rfc_8291_gives_its_bytes() -> None:
    secret = int.from_bytes(from_base64url("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    browser = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    sent = encrypt(
        b"When I grow up, I want to be a watermelon",
        from_base64url(browser),
        from_base64url("BTBZMqHH6r4Tts7J_aSIgg"),
        salt=from_base64url("DGv6ra1nlYgDCS1FRnbzlw"),
        key=derive_private_key(secret, SECP256R1()),
    )
    assert to_base64url(sent) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"
        "yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


async def test_a_notification_is_sent_once_signed_and_only_its_browser_can_read_it(database: Database) -> None:
    browser = Browser()
    with receiving() as receiver:
        await ask(database, browser, receiver.url)
        async with pushing(database) as sender:
            assert await sender.pass_once() == 1
            assert await sender.pass_once() == 0
    [message], [received] = await log(database), receiver.received
    assert (message.state, message.channel) == ("sent", PUSH)
    shown = browser.read(received)
    assert shown["title"] == "Sie sind dran: Tide"
    assert (shown["url"], shown["tag"]) == ("/s/drop", message.message_id)
    assert b"Tide" not in received.body
    assert received.headers["content-encoding"] == "aes128gcm"
    assert received.headers["urgency"] == "high"
    assert 0 < int(received.headers["ttl"]) <= 28 * 86_400
    _is_signed(received, receiver)


def _is_signed(received: Received, receiver: Receiver) -> None:
    token, public = received.headers["authorization"].removeprefix("vapid t=").split(", k=")
    assert public == KEY.public_key
    point = from_base64url(public)
    jwk: dict[str, str | list[str]] = {
        "kty": "EC",
        "crv": "P-256",
        "x": to_base64url(point[1:33]),
        "y": to_base64url(point[33:]),
    }
    claims = jwt.decode(token, ECKey.import_key(jwk), algorithms=["ES256"]).claims
    assert (claims["aud"], claims["sub"]) == (f"http://127.0.0.1:{receiver.port}", "mailto:ops@shop.example")


@pytest.mark.parametrize(
    ("status", "expected", "attempts", "devices"),
    [
        (404, ("failed", "subscription_gone"), 1, 0),
        (410, ("failed", "subscription_gone"), 1, 0),
        (400, ("failed", "http_400"), 1, 1),
        (429, ("failed", "http_429"), 3, 1),
        (500, ("failed", "http_500"), 3, 1),
    ],
)
async def test_a_subscription_that_is_gone_is_deleted_and_patience_is_bounded(
    database: Database, status: int, expected: tuple[str, str], attempts: int, devices: int
) -> None:
    with receiving(lambda _: Reply(status)) as receiver:
        await ask(database, Browser(), receiver.url)
        async with pushing(database, delays_s=(0.0, 0.0)) as sender:
            for _ in range(5):
                await sender.pass_once()
        assert len(receiver.received) == attempts
    [message] = await log(database)
    assert (message.state, message.reason) == expected
    assert await database.read(lambda c: count_devices(c, "ada")) == devices


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_notification_that_cannot_be_written_fails_alone_and_its_browser_stays(
    database: Database, tmp_path: Path
) -> None:
    """A template that somebody saved in another encoding is no fault of the browser's."""
    (tmp_path / "your_turn.de.txt").write_bytes("Sie sind dran: $sale für Sie".encode("latin-1"))
    with receiving() as receiver:
        await ask(database, Browser(), receiver.url)
        await add(database, "sold_out", receiver.url)
        async with pushing(database, letters=Letters(tmp_path, "https://shop.example")) as sender:
            await sender.pass_once()
        assert len(receiver.received) == 1
    found = {message.kind: (message.state, message.reason) for message in await log(database)}
    assert found == {"your_turn": ("failed", "not_writable"), "sold_out": ("sent", None)}
    assert await database.read(lambda c: count_devices(c, "ada")) == 1


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_push_service_that_keeps_silent_holds_up_nobody_else(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.messages.push.pusher.CLAIMED_MAX", 2)
    monkeypatch.setattr("holdfast.messages.push.pusher.PASS_INTERVAL_S", 0.05)
    released = Event()

    def answer(_: Received) -> Reply:
        released.wait(60)
        return Reply()

    with receiving(answer) as silent, receiving() as receiver:
        try:
            await ask(database, Browser(), silent.url)
            async with pushing(database) as sender:
                passing = asyncio.create_task(sender.pass_once())
                await silent.until(lambda: len(silent.received) == 1)
                # They become due while nothing else is under way.
                for number in range(4):
                    await add(database, "sold_out", f"{receiver.url}/{number}")
                await receiver.until(lambda: len(receiver.received) == 4)
                assert not passing.done()
                released.set()
                assert await passing == 5
        finally:
            released.set()
    assert {message.state for message in await log(database)} == {"sent"}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_ledger_that_fails_meanwhile_interrupts_no_notification(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.messages.push.pusher.PASS_INTERVAL_S", 0.05)
    released = Event()

    def answer(_: Received) -> Reply:
        released.wait(60)
        return Reply()

    with receiving(answer) as receiver:
        try:
            await ask(database, Browser(), receiver.url)
            async with pushing(database) as sender:
                passing = asyncio.create_task(sender.pass_once())
                await receiver.until(lambda: len(receiver.received) == 1)
                with monkeypatch.context() as failing:
                    failing.setattr(database, "write", AsyncMock(side_effect=Unavailable("away")))
                    with pytest.raises(Unavailable):
                        await passing
                released.set()
                await sender.pass_once()
        finally:
            released.set()
    [message] = await log(database)
    assert (message.state, message.attempts) == ("sent", 1)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_push_service_that_keeps_silent_is_asked_with_one_message_at_a_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was given may have arrived, and is not repeated: with all of them, all would be lost."""
    silent, asked = {"silent.example"}, list[str]()

    async def post(_: Poster, url: str, *__: object) -> Posted:
        service = urlsplit(url).netloc
        asked.append(service)
        return Posted(None, "timeout", None, 1) if service in silent else Posted(201, None, None, 1)

    monkeypatch.setattr(Poster, "post", post)
    await ask(database, Browser(), "https://silent.example/first")
    async with pushing(database) as sender:
        await sender.pass_once()
        for service in ("silent", "silent", "silent", "other", "other"):
            await add(database, "sold_out", f"https://{service}.example/{secrets.token_hex(4)}")
        await sender.pass_once()
        assert sorted(asked[1:]) == ["other.example", "other.example", "silent.example"]
        waiting = [message for message in await log(database) if message.state == "waiting"]
        assert [message.attempts for message in waiting] == [0, 0]
        silent.clear()
        for _ in range(2):
            await database.write(lambda c: c.execute(update(messages).values(due_at=0)))
            await sender.pass_once()
    assert Counter(message.state for message in await log(database)) == {"sent": 4, "unknown": 2}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_process_that_stops_lets_what_it_is_sending_end(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.messages.push.pusher.CLOSE_S", 60)
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def post(*_: object) -> Posted:
        is_asked.set()
        await may_answer.wait()
        return Posted(201, None, None, 1)

    monkeypatch.setattr(Poster, "post", post)
    await ask(database, Browser(), "https://push.example/1")
    async with pushing(database) as sender, asyncio.timeout(60):
        running = asyncio.create_task(sender.agent().run())
        await is_asked.wait()
        running.cancel()
        may_answer.set()
        await asyncio.wait([running])
    [message] = await log(database)
    assert (message.state, message.attempts) == ("sent", 1)


async def test_a_private_address_is_never_called(database: Database) -> None:
    with receiving() as receiver:
        await ask(database, Browser(), receiver.url)
        async with pushing(database, private=False) as sender:
            await sender.pass_once()
        assert receiver.received == []
    [message] = await log(database)
    assert (message.state, message.reason) == ("failed", "address_refused")


async def test_a_service_that_is_away_is_tried_again_and_nobody_who_opted_out_is_told(database: Database) -> None:
    await ask(database, Browser(), "http://127.0.0.1:1/push")
    async with pushing(database) as sender:
        await sender.pass_once()
    [message] = await log(database)
    assert (message.state, message.attempts) == ("waiting", 1)
    await database.write(lambda c: delete_contact(c, "ada"))
    await database.write(lambda c: c.execute(update(messages).values(due_at=0)))
    async with pushing(database) as sender:
        await sender.pass_once()
    [message] = await log(database)
    assert (message.state, message.reason) == ("dropped", "opted_out")
    assert await database.read(lambda c: count_devices(c, "ada")) == 0


async def test_a_buyer_is_told_by_mail_and_in_each_browser_which_belongs_to_one_buyer(
    database: Database,
) -> None:
    one, other = (Browser().device("ada", f"https://push.example/{n}") for n in range(2))

    def work(connection: Any) -> None:
        put_contact(connection, Contact("ada", "ada@example.com"), 1)
        put_contact(connection, Contact("bob", "bob@example.com"), 1)
        put_device(connection, one, 1)
        put_device(connection, other, 2)

    await database.write(work)
    addresses = Addresses(has_mail=True, has_push=True)
    found = await database.read(lambda c: addresses.of(c, ["ada", "bob", "eve"]))
    assert {target.channel for target in found["ada"]} == {MAIL, PUSH}
    assert len(found["ada"]) == 3
    assert [target.channel for target in found["bob"]] == [MAIL]
    moved = Browser().device("bob", one.endpoint)
    await database.write(lambda c: put_device(c, moved, 3))
    assert await database.read(lambda c: devices_of(c, ["ada", "bob"])) == {
        "ada": [other.device_id],
        "bob": [one.device_id],
    }
    for n in range(DEVICES_MAX + 3):
        device = Browser().device("eve", f"https://push.example/eve/{n}")
        await database.write(lambda c, device=device, n=n: put_device(c, device, n))  # type: ignore[misc]
    assert await database.read(lambda c: count_devices(c, "eve")) == DEVICES_MAX


@pytest.mark.parametrize(
    ("contact", "key"), [("ops@shop.example", ""), ("http://x", ""), ("", "short"), ("", "A" * 43)]
)
def test_settings_that_cannot_be_used_are_refused(contact: str, key: str) -> None:
    with pytest.raises(SettingsError):
        check_push(contact, key)
