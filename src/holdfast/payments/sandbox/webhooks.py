"""The sandbox's webhooks, both ends: posting them signed as Standard Webhooks, and checking one that came in."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

import httpx
import msgspec
import structlog
from msgspec import Struct
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast.payments.notice import Notice, NoticeRefused
from holdfast.payments.sandbox.entry import Entry

log = structlog.get_logger()

# A receiver that is down for longer than these attempts take learns the truth by looking up.
ATTEMPTS = 5
FIRST_PAUSE_S = 0.2
SENDERS = 8
# More than that are waiting only if the receiver is down; the oldest of them are not worth more memory.
WAITING_MAX = 100_000


class Update(Struct, frozen=True):
    key: str
    state: str


class Message(Struct, frozen=True):
    type: str
    timestamp: str
    data: Update


_decode = msgspec.json.Decoder(Message).decode


class WebhookSender:
    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._signer = Webhook(secret)
        self._waiting: asyncio.Queue[tuple[str, Entry]] = asyncio.Queue(WAITING_MAX)
        self._client = httpx.AsyncClient(timeout=5.0, trust_env=False)
        self._senders = [asyncio.create_task(self._send_all()) for _ in range(SENDERS)]

    def post(self, entry: Entry, *, twice: bool) -> None:
        for _ in range(2 if twice else 1):
            if not self._waiting.full():
                self._waiting.put_nowait((webhook_id(entry), entry))

    async def close(self) -> None:
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        await self._client.aclose()

    async def _send_all(self) -> None:
        while True:
            await self._send(*await self._waiting.get())

    async def _send(self, message_id: str, entry: Entry) -> None:
        for attempt in range(ATTEMPTS):
            try:
                answer = await self._client.send(self._request(message_id, entry))
                if answer.is_success:
                    return
                failure = f"status {answer.status_code}"
            except httpx.HTTPError as exc:
                failure = repr(exc)
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
        log.warning("webhook_given_up", webhook_id=message_id, failure=failure)

    def _request(self, message_id: str, entry: Entry) -> httpx.Request:
        """Signed anew for each attempt, because an old signature is refused."""
        now = datetime.now(UTC)
        body = msgspec.json.encode(Message("payment.updated", now.isoformat(), Update(entry.key, entry.state)))
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(message_id, now, body.decode()),
        }
        return self._client.build_request("POST", self._url, content=body, headers=headers)


def webhook_id(entry: Entry) -> str:
    """One per change of a payment, so that a receiver can tell a repeat from news."""
    return f"{entry.reference}.{len(entry.history)}"


def read_webhook(secret: str, body: bytes, headers: Mapping[str, str]) -> Notice:
    """What the sandbox told us, if it was the sandbox and not long ago. Header names are in lower case."""
    try:
        Webhook(secret).verify(body, dict(headers))
        message = _decode(body)
    except (WebhookVerificationError, ValueError) as exc:
        raise NoticeRefused(str(exc)) from exc
    return Notice(headers["webhook-id"], message.type, message.data.key)
