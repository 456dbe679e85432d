"""Sends due notifications, many at a time. A push service is a third party, so it gets nothing that it could read.

As with mail, a message is claimed before it is sent, and one that may have arrived is not repeated. A subscription that
its push service no longer knows (404, 410) is deleted. Endpoints come from buyers, so they are called like those of
webhooks, and never lead into a private network.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.messages.devices import Device, delete_device, find_device
from holdfast.ledger.messages.message_log import (
    PUSH,
    Claimed,
    Outcome,
    anything_due,
    claim,
    expire_claims,
    finish,
)
from holdfast.messages.letters import Letters
from holdfast.messages.push.encryption import encrypt, from_base64url
from holdfast.messages.push.vapid import VapidKey
from holdfast.messages.retry import DELAYS_S, due_again
from holdfast.runtime.agent import Agent
from holdfast.runtime.log import log_failure
from holdfast.runtime.outgoing.poster import Posted, Poster

log = structlog.get_logger()

PASS_INTERVAL_S = 1.0
# Sent at the same time.
CLAIMED_MAX = 32
# After one has ended, those that end within this time are recorded in the same transaction.
COLLECT_S = 0.02
# Less than the time a stopping process gives its agents.
CLOSE_S = 0.5
LEASE_MS = 60_000
SEND_TIMEOUT_S = 10.0
# How long a message waits while another one probes whether its push service responds again.
SILENT_MS = 10_000
# Services known not to respond. Beyond this many, all are forgotten, because buyers choose them.
SILENT_MAX = 1_000
RETRY_AFTER_MAX_S = 3_600.0
# Push services keep a message no longer.
TTL_MAX_S = 28 * 86_400
BODY_MAX = 500
_URGENT = frozenset(("your_turn", "payment_failed"))
_GONE = frozenset((404, 410))
_PATIENCE = frozenset((408, 425, 429))


class Shown(Struct, frozen=True):
    """What the page's service worker shows, and the link that a click opens."""

    title: str
    body: str
    url: str
    tag: str


class _Work(Struct, frozen=True):
    one: Claimed
    device: Device

    @property
    def service(self) -> str:
        return urlsplit(self.device.endpoint).netloc


class _Sent(Struct, frozen=True):
    work: _Work
    outcome: Outcome
    asked_s: float = 0.0
    is_gone: bool = False


class Pusher:
    def __init__(
        self,
        database: Database,
        poster: Poster,
        key: VapidKey,
        letters: Letters,
        *,
        delays_s: Sequence[float] = DELAYS_S,
    ) -> None:
        self._database, self._poster, self._key, self._letters = database, poster, key, letters
        self._delays_s = delays_s
        self._wake = asyncio.Event()
        # In progress, and ended but not yet recorded in the ledger: neither is lost if the ledger fails meanwhile.
        self._sending, self._sent = dict[asyncio.Task[_Sent], _Work](), list[_Sent]()
        # Push services that did not respond the last time. Each is tried with one message at a time: any more would be
        # lost, because they may have arrived, and would take the places of messages to other services.
        self._silent = set[str]()

    def wake(self) -> None:
        self._wake.set()

    def agent(self) -> Agent[int]:
        return Agent(
            "pusher",
            self._look,
            PASS_INTERVAL_S,
            rest_s=lambda _: 0.0 if self._is_busy else PASS_INTERVAL_S,
            wake=self._wake,
            least_rest_s=0.05,
            close=self._close,
        )

    async def _close(self) -> None:
        """Lets messages in progress end, because an aborted one may have arrived and is not repeated."""
        try:
            await self._wait(CLOSE_S, asyncio.ALL_COMPLETED)
            if self._sent:
                await self._settle_and_start(limit=0)
        except EngineError as exc:
            log_failure("notifications_not_noted", exc)
        finally:
            for task in self._sending:
                task.cancel()
            await self._poster.close()

    @property
    def _is_busy(self) -> bool:
        return bool(self._sending or self._sent)

    async def pass_once(self) -> int:
        """Send due messages. Returns how many were claimed."""
        count = await self._look()
        while self._is_busy:
            count += await self._look()
        return count

    async def _look(self) -> int:
        """Record what was sent, claim what is due, and wait a moment for some of it. A slow service delays only its own
        messages: any that become due meanwhile are sent."""
        if not self._is_busy and not await self._database.read(self._is_anything_due):
            return 0
        started = await self._settle_and_start(CLAIMED_MAX - len(self._sending))
        await self._wait(PASS_INTERVAL_S, asyncio.FIRST_COMPLETED)
        return started

    async def _settle_and_start(self, limit: int) -> int:
        asked = {work.service for work in self._sending.values()}
        settle = partial(self._settle_and_claim, sent=self._sent, limit=limit, silent=self._silent, asked=asked)
        now, work = await self._database.write(settle)
        self._sending |= {asyncio.create_task(self._send(each, now)): each for each in work}
        self._sent = []
        return len(work)

    async def _wait(self, seconds: float, until: str) -> None:
        if not self._sending:
            return
        await asyncio.wait(self._sending, timeout=seconds, return_when=until)
        done, _ = await asyncio.wait(self._sending, timeout=COLLECT_S)
        for task in done:
            del self._sending[task]
            self._note(task.result())

    def _note(self, sent: _Sent) -> None:
        self._sent.append(sent)
        service = sent.work.service
        if sent.outcome.reason != "timeout":
            self._silent.discard(service)
            return
        if len(self._silent) >= SILENT_MAX:
            self._silent.clear()
        self._silent.add(service)

    def _is_anything_due(self, connection: Connection) -> bool:
        return anything_due(connection, PUSH, self._database.now_ms(connection))

    def _settle_and_claim(
        self, connection: Connection, sent: Sequence[_Sent], limit: int, silent: set[str], asked: set[str]
    ) -> tuple[int, list[_Work]]:
        """`asked`: services with messages in progress."""
        now = self._database.now_ms(connection)
        finish(connection, [due_again(each.outcome, now, self._delays_s, each.asked_s) for each in sent], now)
        for each in sent:
            if each.is_gone:
                delete_device(connection, each.work.device.device_id)
        expire_claims(connection, now)
        work = list[_Work]()
        for one in claim(connection, PUSH, now, now + LEASE_MS, limit=limit):
            device = find_device(connection, one.message.values["target"], one.message.buyer_id)
            if device is None:
                finish(connection, [Outcome(one.message, "dropped", "opted_out", is_attempt=False)], now)
                continue
            new = _Work(one, device)
            if new.service in silent and new.service in asked | {other.service for other in work}:
                later = Outcome(one.message, "waiting", "timeout", now + SILENT_MS, is_attempt=False)
                finish(connection, [later], now)
            else:
                work.append(new)
        return now, work

    async def _send(self, work: _Work, now: int) -> _Sent:
        message, device = work.one.message, work.device
        text = self._written(work.one)
        if text is None:
            return _Sent(work, Outcome(message, "failed", "not_writable"))
        try:
            body = encrypt(text, from_base64url(device.browser_key), from_base64url(device.auth))
        except ValueError:
            return _Sent(work, Outcome(message, "failed", "key_invalid"), is_gone=True)
        seconds = min(max((message.expires_at - now) // 1000, 1), TTL_MAX_S)
        headers = {
            "authorization": self._key.authorization(device.endpoint, now // 1000),
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(seconds),
            "urgency": "high" if message.kind in _URGENT else "normal",
        }
        return _judged(work, await self._poster.post(device.endpoint, headers, body))

    def _written(self, one: Claimed) -> bytes | None:
        """None if it cannot be written, because templates may contain anything. It fails alone; the others are sent."""
        try:
            return self._text(one)
        except Exception as exc:
            log.warning("notification_not_writable", message_id=one.message.message_id, error=type(exc).__name__)
            return None

    def _text(self, one: Claimed) -> bytes:
        letter = self._letters.write(one.message.kind, one.contact.locale, one.sale, one.message.values, "")
        shown = Shown(
            title=letter.subject,
            body=letter.text.partition("\n\n")[0][:BODY_MAX],
            url=f"/s/{one.sale.sale_id}",
            tag=one.message.message_id,
        )
        return msgspec.json.encode(shown)


def _judged(work: _Work, posted: Posted) -> _Sent:
    message, status = work.one.message, posted.status
    if status is None:
        state = "unknown" if posted.may_have_arrived else "waiting"
        if posted.error == "address_refused":
            return _Sent(work, Outcome(message, "failed", posted.error), is_gone=True)
        return _Sent(work, Outcome(message, state, posted.error))
    if 200 <= status < 300:
        return _Sent(work, Outcome(message, "sent"))
    if status in _GONE:
        return _Sent(work, Outcome(message, "failed", "subscription_gone"), is_gone=True)
    is_waiting = status >= 500 or status in _PATIENCE
    asked_s = min(posted.retry_after_s or 0.0, RETRY_AFTER_MAX_S)
    return _Sent(work, Outcome(message, "waiting" if is_waiting else "failed", f"http_{status}"), asked_s)
