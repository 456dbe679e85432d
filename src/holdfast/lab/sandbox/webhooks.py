"""Posts the sandbox's webhooks, signed according to Standard Webhooks."""

import asyncio
from datetime import UTC, datetime

import httpx
import msgspec
import structlog
from standardwebhooks import Webhook

from holdfast.lab.sandbox.entry import Entry
from holdfast.payments.sandbox.webhook import Message, Update

log = structlog.get_logger()

# A receiver that is down for longer has to look payments up.
ATTEMPTS = 5
FIRST_PAUSE_S = 0.2
SENDERS = 8
# The queue fills only if the receiver is down; further messages are dropped.
WAITING_MAX = 100_000


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
        """Signed anew for each attempt, because receivers refuse old signatures."""
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
    """Unique per change of a payment, so that receivers can detect duplicates."""
    return f"{entry.reference}.{len(entry.history)}"
