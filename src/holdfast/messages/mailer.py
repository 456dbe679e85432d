"""Sends the mail that is due, a few messages per claim, over one connection.

The connection is opened first: while the mail server does not respond, nothing is claimed and no attempt is used up.
Messages are claimed before they are sent, so two processes never send the same one, and a process that is killed leaves
`unknown` messages rather than duplicates (`ledger/messages/message_log.py`).
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, formataddr, parseaddr
from functools import partial
from time import monotonic

import structlog
from sqlalchemy import Connection

from holdfast.ledger.engine.database import Database
from holdfast.ledger.messages.message_log import (
    MAIL,
    Claimed,
    Message,
    Outcome,
    anything_due,
    claim,
    expire_claims,
    finish,
)
from holdfast.messages.letters import Letter, Letters
from holdfast.messages.retry import DELAYS_S, due_again
from holdfast.messages.smtp import SmtpSession, SmtpUnavailable
from holdfast.messages.smtp_url import SmtpUrl
from holdfast.messages.unsubscribe import Subscriber, UnsubscribeLinks
from holdfast.runtime.agent import Agent
from holdfast.runtime.outgoing.threads import on_thread

log = structlog.get_logger()

PASS_INTERVAL_S = 1.0
CLAIMED_MAX = 10
LEASE_MS = 120_000
# No message is started later than this after its claim, so that even the slowest outcome comes before the claim
# expires.
BEGIN_WITHIN_S = 60.0
# While the server does not respond.
AWAY_S = 15.0
# A pass may wait for a slow server, one message after the other.
LONGEST_PASS_S = 300.0


class Mailer:
    def __init__(
        self,
        database: Database,
        url: SmtpUrl,
        sender: str,
        letters: Letters,
        links: UnsubscribeLinks,
        *,
        delays_s: Sequence[float] = DELAYS_S,
    ) -> None:
        self._database, self._url, self._letters, self._links = database, url, letters, links
        self._name, self._sender = parseaddr(sender)
        self._delays_s = delays_s
        self._wake = asyncio.Event()
        self._is_away = False

    def wake(self) -> None:
        self._wake.set()

    def agent(self) -> Agent[int]:
        return Agent(
            "mailer",
            self.pass_once,
            PASS_INTERVAL_S,
            rest_s=lambda _: AWAY_S if self._is_away else PASS_INTERVAL_S,
            wake=self._wake,
            least_rest_s=0.05,
            longest_pass_s=LONGEST_PASS_S,
        )

    async def pass_once(self) -> int:
        """Send due messages. Returns how many were claimed."""
        if not await self._database.read(lambda c: anything_due(c, MAIL, self._database.now_ms(c))):
            return 0
        session = SmtpSession(self._url)
        try:
            await on_thread(session.open)
        except SmtpUnavailable as exc:
            log.warning("mail_server_unavailable", host=self._url.host, port=self._url.port, reason=str(exc))
            self._is_away = True
            await self._database.write(lambda c: expire_claims(c, self._database.now_ms(c)))
            return 0
        self._is_away = False
        try:
            return await self._send_all(session)
        except BaseException:
            session.abort()
            raise
        finally:
            await on_thread(session.close)

    async def _send_all(self, session: SmtpSession) -> int:
        outcomes, sent, is_broken = list[Outcome](), 0, False
        while True:
            claimed = await self._database.write(partial(self._settle_and_claim, outcomes=outcomes, ends=is_broken))
            if not claimed:
                return sent
            outcomes, is_broken = await self._send_claimed(session, claimed)
            sent += len(claimed)

    def _settle_and_claim(self, connection: Connection, outcomes: Sequence[Outcome], *, ends: bool) -> list[Claimed]:
        now = self._database.now_ms(connection)
        finish(connection, [due_again(one, now, self._delays_s) for one in outcomes], now)
        expire_claims(connection, now)
        return [] if ends else claim(connection, MAIL, now, now + LEASE_MS, limit=CLAIMED_MAX)

    async def _send_claimed(self, session: SmtpSession, claimed: Sequence[Claimed]) -> tuple[list[Outcome], bool]:
        """The outcome of each. Messages that were not started keep waiting, even if the process is stopped."""
        until, outcomes, is_broken = monotonic() + BEGIN_WITHIN_S, list[Outcome](), False
        for at, one in enumerate(claimed):
            if is_broken or monotonic() > until:
                outcomes.append(_not_begun(one))
                continue
            content = self._written(one)
            if content is None:
                outcomes.append(Outcome(one.message, "failed", "not_writable"))
                continue
            try:
                reply = await on_thread(session.send, content, self._sender, one.contact.email or "")
            except asyncio.CancelledError:
                outcomes += [_not_begun(each) for each in claimed[at + 1 :]]
                await self._database.write(partial(self._settle_and_claim, outcomes=outcomes, ends=True))
                raise
            is_broken = reply.is_broken
            outcomes.append(Outcome(one.message, reply.state, reply.reason, is_attempt=reply.is_attempt))
        return outcomes, is_broken

    def _written(self, one: Claimed) -> bytes | None:
        """None if it cannot be written: this message fails, and those claimed with it are still sent. Values from
        buyers, operators and templates may be invalid for the email package, which can raise any exception."""
        try:
            return self._mail(one).as_bytes(policy=SMTP_POLICY)
        except Exception as exc:
            log.warning("mail_not_writable", message_id=one.message.message_id, error=type(exc).__name__)
            return None

    def _mail(self, one: Claimed) -> EmailMessage:
        link = self._links.url_of(Subscriber(one.contact.buyer_id, one.contact.created_at))
        letter = self._letters.write(one.message.kind, one.contact.locale, one.sale, one.message.values, link)
        shop = one.sale.brand.name if one.sale.brand is not None and one.sale.brand.name is not None else self._name
        return mail_of(one.message, letter, formataddr((shop, self._sender)), one.contact.email or "", link)


def _not_begun(one: Claimed) -> Outcome:
    return Outcome(one.message, "waiting", "not_begun", is_attempt=False)


def mail_of(message: Message, letter: Letter, sender: str, recipient: str, link: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, recipient, letter.subject
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.created_at / 1000, UTC))
    mail["Message-ID"] = f"<{message.message_id}@{parseaddr(sender)[1].rpartition('@')[2]}>"
    # One click and no sign-in (RFC 8058); no vacation replies (RFC 3834).
    mail["List-Unsubscribe"] = f"<{link}>"
    mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(letter.text)
    mail.add_alternative(letter.html, subtype="html")
    return mail
