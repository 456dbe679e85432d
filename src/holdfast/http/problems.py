"""Every refusal and failure as one kind of answer: application/problem+json (RFC 9457) with a stable `reason`."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.domain.command import Verdict
from holdfast.domain.outcome import Outcome
from holdfast.errors import Busy, EngineError, OutcomeUnknown
from holdfast.http.times import rfc3339

MEDIA_TYPE = "application/problem+json"
RETRYABLE = frozenset({429, 503})


class Problem(Exception):
    def __init__(self, status: int, reason: str, title: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.title = title
        self.detail = detail
        self.members = members

    def body(self) -> bytes:
        told = {
            "type": f"urn:holdfast:{self.reason}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "reason": self.reason,
        }
        return msgspec.json.encode(told | self.members)

    def headers(self) -> list[tuple[str, str]]:
        headers = [("content-type", MEDIA_TYPE)]
        if self.status in RETRYABLE:
            # Jittered, so that those refused together do not all come back together.
            headers.append(("retry-after", str(random.randint(1, 3))))
        if self.status == 401:
            headers.append(("www-authenticate", "Bearer"))
        return headers


def unauthorized(detail: str) -> Problem:
    return Problem(401, "unauthorized", "Not signed in", detail)


def forbidden(detail: str) -> Problem:
    return Problem(403, "forbidden", "Not allowed", detail)


def sku_not_found() -> Problem:
    return Problem(
        404, "sku_not_found", "No such SKU", "There is no pool for this SKU. PUT /v1/inventory/{sku_id} makes one."
    )


def reservation_not_found() -> Problem:
    return Problem(404, "reservation_not_found", "No such reservation", "There is no reservation by this id, for you.")


def reservation_lost() -> Problem:
    return Problem(
        410,
        "reservation_lost",
        "Reservation lost",
        "It was granted, and lost when the stock had to be restored after a failure. Nothing was sold or charged; "
        "reserve again.",
    )


def webhook_not_found() -> Problem:
    return Problem(404, "webhook_not_found", "No such webhook", "There is no webhook by this id.")


def key_not_found() -> Problem:
    return Problem(404, "key_not_found", "No such key", "There is no service key by this id.")


def delivery_not_found() -> Problem:
    return Problem(404, "delivery_not_found", "No such delivery", "This webhook has no delivery by this id.")


def too_many_webhooks(most: int) -> Problem:
    return Problem(409, "too_many_webhooks", "Too many webhooks", f"There are {most} already. Remove one first.")


def below_committed(verdict: Verdict) -> Problem:
    assert verdict.pool is not None
    committed = verdict.pool.held + verdict.pool.sold
    detail = f"{committed} units are held or sold; the total cannot be lower than that."
    return Problem(
        409, "below_committed", "Below what is committed", detail, held=verdict.pool.held, sold=verdict.pool.sold
    )


def shards_fixed(shards: int) -> Problem:
    detail = f"The pool has {shards} shards, which was chosen when it was created and cannot be changed."
    return Problem(409, "shards_fixed", "Shards cannot be changed", detail, shards=shards)


def from_engine(error: EngineError, request: str = "") -> Problem:
    """`request` is its method and path: what to do about an unknown outcome depends on what was asked."""
    if isinstance(error, Busy):
        return Problem(503, "busy", "Busy", "Too many requests are waiting. Nothing was changed; try again shortly.")
    if isinstance(error, OutcomeUnknown):
        detail = f"It is not known whether this happened. {_how_to_find_out(request)}"
        return Problem(503, "outcome_unknown", "Outcome unknown", detail)
    return Problem(
        503, "not_ready", "Not ready", "The store cannot be reached. Nothing was changed; try again shortly."
    )


def _how_to_find_out(request: str) -> str:
    if request.endswith("/purchase"):
        return "Repeat it with the same idempotency key."
    if request.endswith("/restock"):
        return "Repeat it with the same `Idempotency-Key`; if there was none, look at `total_units` first."
    if request.endswith("/reserve"):
        return "Repeat it with the same idempotency key; if there was none, look among the owner's reservations."
    if request.endswith("/extend"):
        return "Look at the reservation's `expires_at` before you repeat it: twice would be longer."
    return "Repeat it: done twice, it is the same as once."


def not_working(agents: Sequence[str]) -> Problem:
    detail = f"Background work has ended by itself: {', '.join(agents)}. Restart this server; its log says why."
    return Problem(503, "not_ready", "Not ready", detail)


def internal_error() -> Problem:
    return Problem(
        500, "internal_error", "Internal error", "Something is wrong on our side. The request id finds it in the logs."
    )


def refusal(verdict: Verdict) -> Problem:
    """The inventory API's words for a verdict that is not a success."""
    members: dict[str, Any] = {}
    if verdict.outcome in _STOCK:
        members["available"] = verdict.available
    if verdict.next_return_at is not None:
        members["next_return_at"] = rfc3339(verdict.next_return_at)
    if verdict.retry_after_ms is not None:
        members["retry_after_ms"] = verdict.retry_after_ms
    if verdict.opens_at is not None:
        members["starts_at"] = rfc3339(verdict.opens_at)
    if verdict.latest_expires_at is not None:
        members["latest_expires_at"] = rfc3339(verdict.latest_expires_at)
    if verdict.outcome is Outcome.ILLEGAL:
        return _illegal(verdict)
    if verdict.outcome is Outcome.POOL_NOT_FOUND:
        return sku_not_found()
    if verdict.outcome is Outcome.NOT_FOUND:
        return reservation_not_found()
    status, reason, title, detail = _REFUSALS[verdict.outcome]
    if verdict.latest_expires_at is not None and verdict.reservation is not None:
        most_s = (verdict.latest_expires_at - verdict.reservation.created_at) // 1000
        detail = f"This hold lasts at most {most_s} s in all, extensions included."
    return Problem(status, reason, title, detail, **members)


def _illegal(verdict: Verdict) -> Problem:
    assert verdict.reservation is not None
    state = verdict.reservation.status
    detail = f"The reservation is {state}; this is not possible any more."
    return Problem(409, f"reservation_{state}", f"Reservation {state}", detail, state=state)


_STOCK = frozenset({Outcome.INSUFFICIENT, Outcome.ALL_HELD, Outcome.SOLD_OUT})
_NO_STOCK = (409, "insufficient_inventory", "Not enough units")
_REFUSALS: dict[Outcome, tuple[int, str, str, str]] = {
    Outcome.KEY_REUSED: (
        422, "idempotency_key_reused", "Idempotency key reused", "This key was used with another request."
    ),
    Outcome.NOT_READY: (503, "not_ready", "Not ready", "The pool is being prepared; try again shortly."),
    Outcome.NOT_OPEN: (409, "sale_not_open", "Not open yet", "The sale has not started."),
    Outcome.PAUSED: (409, "sale_paused", "Paused", "The sale is paused."),
    Outcome.ENDED: (409, "sale_ended", "Ended", "The sale is over."),
    Outcome.TIER_REQUIRED: (403, "tier_required", "Tier required", "This needs a higher account tier."),
    Outcome.BUYER_LIMIT: (409, "buyer_limit", "Limit reached", "This owner may not have more units of this SKU."),
    Outcome.HOLD_BUDGET: (409, "hold_budget", "Too many holds let go", "This owner let go of too many holds unpaid."),
    Outcome.INSUFFICIENT: (*_NO_STOCK, "Fewer units are free than were asked for."),
    Outcome.ALL_HELD: (*_NO_STOCK, "No unit is free now; some are held and may come back."),
    Outcome.SOLD_OUT: (*_NO_STOCK, "Every unit is sold."),
    Outcome.EXTENSION_LIMIT: (409, "extension_limit", "Held long enough", "A hold lasts at most 1800 s in all."),
}  # fmt: skip
