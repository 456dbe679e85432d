"""Deliveries that continue the trace of their event and pass it on to the receiver."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.events.deliveries import Delivery
from holdfast.ledger.events.webhooks import Webhook
from holdfast.runtime.tracing.context import TRACEPARENT, TraceContext, current_trace, stored_context
from holdfast.runtime.tracing.tracer import Attributes, Kind, Tracer, spanning
from holdfast.webhooks.sender import Answer, Sender


class _Envelope(Struct):
    traceparent: str | None = None


_decode = msgspec.json.Decoder(_Envelope).decode


class TracedSender(Sender):
    def __init__(self, tracer: Tracer, *, private: bool, checkpoint: Callable[[], Checkpoint | None]) -> None:
        super().__init__(private=private, checkpoint=checkpoint)
        self._tracer = tracer

    async def send(self, webhook: Webhook, delivery: Delivery, now: int) -> Answer:
        trace = _trace_of(delivery.body)
        if trace is None:
            return await super().send(webhook, delivery, now)
        about: Attributes = {
            "messaging.message.id": delivery.delivery_id,
            "holdfast.event": delivery.type,
            "holdfast.webhook_id": webhook.webhook_id,
            "holdfast.attempt": delivery.attempts + 1,
        }
        with spanning(self._tracer, f"webhook {delivery.type}", trace, about, kind=Kind.PRODUCER) as span:
            answer = await super().send(webhook, delivery, now)
            if answer.attempt.status is not None:
                span.note("http.response.status_code", answer.attempt.status)
            if answer.attempt.status is None or answer.attempt.status >= 300:
                span.fail(answer.attempt.error or str(answer.attempt.status))
            return answer

    def _headers(self, webhook: Webhook, delivery: Delivery, now: int) -> dict[str, str]:
        headers, current = super()._headers(webhook, delivery, now), current_trace()
        return headers if current is None else headers | {TRACEPARENT: current.traceparent}


def _trace_of(body: str) -> TraceContext | None:
    """Most bodies have no trace and are not decoded."""
    return stored_context(_decode(body).traceparent) if TRACEPARENT in body else None
