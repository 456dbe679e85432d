"""Mail is sent once, whatever the server answers and whenever the process dies: against a real SMTP receiver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, Envelope
from sqlalchemy import update

from holdfast.domain.sale.brand import Brand
from holdfast.domain.sale.sale import Checkout, PaymentKind, Sale, SaleState
from holdfast.errors import SettingsError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.messages.contacts import Contact, delete_contact, put_contact
from holdfast.ledger.messages.message_log import MAIL, Message, NewMessage, add_messages, list_messages, resend
from holdfast.ledger.sales.sales import insert_sale
from holdfast.ledger.tables.messages import messages
from holdfast.ledger.tables.sales import sales
from holdfast.messages.letters import KINDS, OURS, Letters
from holdfast.messages.mail_settings import is_mail_address
from holdfast.messages.mailer import Mailer
from holdfast.messages.smtp_url import SmtpUrl, parse_smtp_url
from holdfast.messages.unsubscribe import Subscriber, UnsubscribeLinks
from holdfast.runtime.signing import parse_signing_keys

FAR = 2**45
LINKS = UnsubscribeLinks(parse_signing_keys("k" * 32), "https://shop.example")
SALE = Sale(
    sale_id="drop", sku_id="sneaker", name="Tide <1>", price_amount=4_999, currency="EUR", starts_at=0,
    checkout=Checkout.CART, payment=PaymentKind.WALLET, state=SaleState.READY, brand=Brand(name="Tidewater"),
)  # fmt: skip


class Receiver:
    """What it answers to recipients and to data; what it got."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.rcpt, self.data = "250 OK", "250 OK"
        self.arrived, self.goes_on = asyncio.Event(), asyncio.Event()
        self.goes_on.set()

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any) -> str:  # noqa: N802 - as aiosmtpd calls it
        if self.rcpt.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.rcpt

    async def handle_DATA(self, server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802 - as aiosmtpd calls it
        assert isinstance(envelope.content, bytes)
        mail = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append(mail)
        self.arrived.set()
        await self.goes_on.wait()
        if self.data == "break":
            server.transport.abort()
        return self.data


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[Receiver, SmtpUrl]]:
    receiver = Receiver()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(receiver), "127.0.0.1", 0)
    async with server:
        yield receiver, parse_smtp_url(f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def mailer(database: Database, url: SmtpUrl, **more: Any) -> Mailer:
    return Mailer(database, url, "noreply@shop.example", Letters(None, "https://shop.example"), LINKS, **more)


async def ask(database: Database, *buyers: str, locale: str | None = None, kind: str = "order_confirmed") -> None:
    def work(connection: Any) -> None:
        now = database.now_ms(connection)
        for buyer in buyers:
            put_contact(connection, Contact(buyer, f"{buyer}@example.com", locale), now)
        about = {"amount": 4_999, "currency": "EUR", "quantity": 1, "number": "AAAA-BBBB-CCCC", "deadline": now}
        new = [NewMessage(buyer, "drop", kind, MAIL, "7", about, FAR) for buyer in buyers]
        assert add_messages(connection, new, now) == len(buyers)
        # The same event again.
        assert add_messages(connection, new, now) == 0

    await database.write(lambda c: insert_sale(c, SALE))
    await database.write(work)


async def log(database: Database) -> list[Message]:
    found, _ = await database.read(lambda c: list_messages(c, limit=100))
    return found


async def states(database: Database) -> list[tuple[str, str | None]]:
    return [(one.state, one.reason) for one in await log(database)]


async def test_a_message_is_sent_once_in_the_language_of_its_reader_with_a_link_to_end_it(database: Database) -> None:
    await ask(database, "ada", locale="de-CH")
    async with receiving() as (receiver, url):
        one, other = mailer(database, url), mailer(database, url)
        await asyncio.gather(one.pass_once(), other.pass_once())
        assert await one.pass_once() == 0
    [mail] = receiver.mails
    assert await states(database) == [("sent", None)]
    assert mail["Subject"] == "Bestellung AAAA-BBBB-CCCC bestätigt: Tide <1>"
    assert (mail["From"], mail["To"]) == ("Tidewater <noreply@shop.example>", "ada@example.com")
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = mail["List-Unsubscribe"].strip("<>")
    subscriber = LINKS.read(link.rpartition("/")[2])
    assert subscriber is not None
    assert subscriber.buyer_id == "ada"
    text, html = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    assert "1 \u00d7 Tide <1>, 49,99 EUR" in text.get_content()
    assert "1 \u00d7 Tide &lt;1&gt;, 49,99 EUR" in html.get_content()
    assert link in text.get_content()
    assert link in html.get_content()


@pytest.mark.parametrize(
    ("rcpt", "data", "expected", "received"),
    [
        ("550 no such user", "250 OK", ("failed", "smtp_550"), 0),
        ("250 OK", "554 spam", ("failed", "smtp_554"), 1),
        ("451 greylisted", "250 OK", ("failed", "smtp_451"), 0),
        ("250 OK", "break", ("unknown", "reply_lost"), 1),
    ],
)
async def test_refusals_are_final_patience_is_bounded_and_a_lost_reply_is_not_repeated(
    database: Database, rcpt: str, data: str, expected: tuple[str, str], received: int
) -> None:
    await ask(database, "ada")
    async with receiving() as (receiver, url):
        receiver.rcpt, receiver.data = rcpt, data
        sender = mailer(database, url, delays_s=(0.0, 0.0))
        for _ in range(5):
            await sender.pass_once()
    assert await states(database) == [expected]
    assert len(receiver.mails) == received
    [message] = await log(database)
    assert message.attempts == (3 if "451" in rcpt else 1)


async def test_a_process_that_dies_between_sending_and_recording_leaves_no_second_mail(database: Database) -> None:
    await ask(database, "ada")
    async with receiving() as (receiver, url):
        receiver.goes_on.clear()
        killed = asyncio.create_task(mailer(database, url).pass_once())
        await receiver.arrived.wait()
        killed.cancel()
        await asyncio.wait([killed])
        receiver.goes_on.set()
        assert (await states(database))[0][0] == "sending"
        survivor = mailer(database, url)
        assert await survivor.pass_once() == 0
        await database.write(lambda c: c.execute(update(messages).values(leased_until=1)))
        await survivor.pass_once()
        assert await states(database) == [("unknown", "interrupted")]
        assert len(receiver.mails) == 1
        [message] = await log(database)
        await database.write(lambda c: resend(c, message.message_id, database.now_ms(c), FAR))
        await survivor.pass_once()
    assert len({mail["Message-ID"] for mail in receiver.mails}) == 1
    assert await states(database) == [("sent", None)]


async def test_a_server_that_is_away_costs_no_attempt_and_nobody_who_opted_out_is_told(database: Database) -> None:
    await ask(database, "ada", "bob", "eve")
    away = mailer(database, parse_smtp_url("smtp://127.0.0.1:1"))
    assert await away.pass_once() == 0
    assert {(one.state, one.attempts) for one in await log(database)} == {("waiting", 0)}
    await database.write(lambda c: delete_contact(c, "bob"))
    old = messages.c.buyer_id == "eve"
    await database.write(lambda c: c.execute(update(messages).where(old).values(expires_at=1)))
    async with receiving() as (receiver, url):
        await mailer(database, url).pass_once()
    assert [mail["To"] for mail in receiver.mails] == ["ada@example.com"]
    found = {one.buyer_id: (one.state, one.reason) for one in await log(database)}
    assert found == {"ada": ("sent", None), "bob": ("dropped", "opted_out"), "eve": ("dropped", "too_late")}


@pytest.mark.parametrize("address", ["=?utf-8?q?a=0aBcc=3aeve?=@example.com", "=?utf-8?q?=3aC=z_yDx0C?=-d@a..b"])
async def test_an_address_that_cannot_be_written_into_a_header_stops_no_other_mail(
    database: Database, address: str
) -> None:
    """It was stored before such addresses were refused."""
    assert not is_mail_address(address)
    await ask(database, "ada", "bob")
    await database.write(lambda c: put_contact(c, Contact("ada", address), database.now_ms(c)))
    async with receiving() as (receiver, url):
        await mailer(database, url).pass_once()
    assert [mail["To"] for mail in receiver.mails] == ["bob@example.com"]
    found = {one.buyer_id: (one.state, one.reason) for one in await log(database)}
    assert found == {"ada": ("failed", "not_writable"), "bob": ("sent", None)}


async def test_a_sale_with_its_switch_off_tells_nobody(database: Database) -> None:
    await ask(database, "ada")
    await database.write(lambda c: c.execute(update(sales).values(notify=False)))
    async with receiving() as (receiver, url):
        await mailer(database, url).pass_once()
    assert receiver.mails == []
    assert await states(database) == [("dropped", "switched_off")]


def test_every_kind_has_a_template_in_every_language_and_a_folder_overrides_them(tmp_path: Path) -> None:
    for kind in (*KINDS, "footer"):
        assert {path.name for path in OURS.glob(f"{kind}.*")} == {f"{kind}.en.txt", f"{kind}.de.txt"}
    (tmp_path / "sold_out.en.txt").write_text("Gone: $sale\n\nAll $sale are gone.")
    letters = Letters(tmp_path, "https://shop.example")
    for kind in KINDS:
        for locale in ("en", "de", "fr"):
            letter = letters.write(kind, locale, SALE, {"deadline": 0}, "https://x")
            assert "$" not in letter.subject + letter.text
    assert letters.write("sold_out", "fr", SALE, {}, "https://x").subject == "Gone: Tide <1>"


def test_links_that_were_not_signed_here_end_nothing() -> None:
    token = LINKS.token_of(Subscriber("ada", 7))
    assert LINKS.read(token) == Subscriber("ada", 7)
    for wrong in ("", ".", token[:-1], f"x{token}", token.upper(), "é.x"):
        assert LINKS.read(wrong) is None


@pytest.mark.parametrize("url", ["http://x", "smtp://", "smtp://h:x", "smtp://u:secret@h?tls=1", "smtp://h/path"])
def test_an_smtp_url_that_cannot_be_used_is_refused_without_repeating_its_password(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_smtp_url(url)
    assert "secret" not in str(refused.value)


def test_credentials_need_tls_beyond_this_host() -> None:
    assert parse_smtp_url("smtp://u:p%40w@mail.example").starttls == "required"
    assert parse_smtp_url("smtp://u:p@127.0.0.1:25").starttls == "auto"
    assert parse_smtp_url("smtps://mail.example").port == 465
    assert parse_smtp_url("smtp://u:p%40w@mail.example").password == "p@w"
    assert "p@w" not in repr(parse_smtp_url("smtp://u:p%40w@mail.example"))
