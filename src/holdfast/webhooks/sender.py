"""Sends one delivery: signed as in Standard Webhooks, with limits on the time and on the size of the response."""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from standardwebhooks import Webhook as Signer

from holdfast import __version__
from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.events.cloud_event import CONTENT_TYPE
from holdfast.ledger.events.deliveries import Attempt, Delivery
from holdfast.ledger.events.webhooks import Webhook
from holdfast.runtime.outgoing.poster import Poster

CHECKPOINT_HEADER = "holdfast-checkpoint"
# A receiver should answer first and process the event afterwards.
SEND_TIMEOUT_S = 10.0


class Answer(Struct, frozen=True):
    attempt: Attempt
    retry_after_s: float | None = None


class Sender:
    def __init__(
        self,
        *,
        private: bool,
        timeout_s: float = SEND_TIMEOUT_S,
        checkpoint: Callable[[], Checkpoint | None] = lambda: None,
    ) -> None:
        """`checkpoint` is the latest of the ledger. Receivers can keep it out of reach of anyone who can rewrite the
        ledger."""
        self._checkpoint = checkpoint
        self._poster = Poster(private=private, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._poster.close()

    async def send(self, webhook: Webhook, delivery: Delivery, now: int) -> Answer:
        """Send the delivery and return the result, which may be a failure. `now` is the engine's time."""
        posted = await self._poster.post(webhook.url, self._headers(webhook, delivery, now), delivery.body.encode())
        return Answer(Attempt(now, posted.took_ms, posted.status, posted.error), posted.retry_after_s)

    def _headers(self, webhook: Webhook, delivery: Delivery, now: int) -> dict[str, str]:
        headers = signed_headers(webhook, delivery, now)
        checkpoint = self._checkpoint()
        if checkpoint is not None:
            headers[CHECKPOINT_HEADER] = msgspec.json.encode(checkpoint).decode()
        return headers


def signed_headers(webhook: Webhook, delivery: Delivery, now: int) -> dict[str, str]:
    at = datetime.fromtimestamp(now // 1000, UTC)
    signatures = [Signer(secret).sign(delivery.delivery_id, at, delivery.body) for secret in webhook.secrets_at(now)]
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": f"holdfast/{__version__}",
        "webhook-id": delivery.delivery_id,
        "webhook-timestamp": str(now // 1000),
        "webhook-signature": " ".join(signatures),
    }
