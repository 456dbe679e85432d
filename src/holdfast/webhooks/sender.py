"""Sends one delivery: signed as in Standard Webhooks, with limits on the time and on the size of the response."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic

import httpcore
import msgspec
from msgspec import Struct
from standardwebhooks import Webhook as Signer

from holdfast import __version__
from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.events.cloud_event import CONTENT_TYPE
from holdfast.ledger.events.deliveries import Attempt, Delivery
from holdfast.ledger.events.webhooks import Webhook
from holdfast.webhooks.address import AddressRefused, GuardedBackend

CHECKPOINT_HEADER = "holdfast-checkpoint"
# A receiver should answer first and process the event afterwards.
SEND_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
# The response is not needed. A short one is read so that the connection can be reused.
ANSWER_MAX_BYTES = 4_096


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
        """`checkpoint` is the latest of the ledger. Receivers keep it where nobody who can rewrite the ledger can."""
        self._timeout_s = timeout_s
        self._checkpoint = checkpoint
        # The caller limits the number of connections.
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None, keepalive_expiry=5.0, network_backend=GuardedBackend(private=private)
        )

    async def close(self) -> None:
        await self._pool.aclose()

    async def send(self, webhook: Webhook, delivery: Delivery, now: int) -> Answer:
        """Send the delivery and return the result, which may be a failure. `now` is the engine's time."""
        started = monotonic()
        status, error, retry_after = None, None, None
        try:
            async with asyncio.timeout(self._timeout_s):
                status, retry_after = await self._post(webhook, delivery, now)
        except (TimeoutError, httpcore.TimeoutException):
            error = "timeout"
        except AddressRefused:
            error = "address_refused"
        except (httpcore.NetworkError, OSError):
            error = "unreachable"
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError):
            error = "protocol_error"
        return Answer(Attempt(now, round((monotonic() - started) * 1000), status, error), retry_after)

    def _headers(self, webhook: Webhook, delivery: Delivery, now: int) -> dict[str, str]:
        headers = signed_headers(webhook, delivery, now)
        checkpoint = self._checkpoint()
        if checkpoint is not None:
            headers[CHECKPOINT_HEADER] = msgspec.json.encode(checkpoint).decode()
        return headers

    async def _post(self, webhook: Webhook, delivery: Delivery, now: int) -> tuple[int, float | None]:
        timeouts = {"connect": CONNECT_TIMEOUT_S, "read": self._timeout_s, "write": self._timeout_s}
        async with self._pool.stream(
            "POST",
            webhook.url,
            headers=list(self._headers(webhook, delivery, now).items()),
            content=delivery.body.encode(),
            extensions={"timeout": timeouts},
        ) as response:
            read = 0
            async for chunk in response.aiter_stream():
                read += len(chunk)
                if read > ANSWER_MAX_BYTES:
                    break
            return response.status, _retry_after(dict(response.headers))


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


def _retry_after(headers: dict[bytes, bytes]) -> float | None:
    """In seconds. The date form is rare and depends on a foreign clock, so it is ignored."""
    given = {name.lower(): value for name, value in headers.items()}.get(b"retry-after", b"")
    return float(given) if given.isdigit() and len(given) < 10 else None
