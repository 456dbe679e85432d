"""Headers that several endpoints take or send."""

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import Header
from holdfast.http.contract.schemas.values import IdempotencyKey

IDEMPOTENCY_KEY_HEADER = "Idempotency-Key"

OPTIONAL_KEY = Header(
    IDEMPOTENCY_KEY_HEADER,
    "The idempotency key, if the body has none. If both are sent, they must be the same.",
    IdempotencyKey,
)
RESTOCK_KEY = Header(IDEMPOTENCY_KEY_HEADER, "A retry with the same key is carried out once.", IdempotencyKey)
REQUIRED_KEY = Header(
    IDEMPOTENCY_KEY_HEADER,
    "A new one for each operation, the same one for a retry.",
    IdempotencyKey,
    problems.IDEMPOTENCY_KEY_REQUIRED,
)
PURCHASE_KEY = Header(
    IDEMPOTENCY_KEY_HEADER,
    "A new one for each purchase, the same one for a retry. With a pass it may be left out: the pass is the key then.",
    IdempotencyKey,
    problems.IDEMPOTENCY_KEY_REQUIRED,
    instead="holdfast-pass",
)
TICKET = Header("Holdfast-Ticket", "The ticket from the response to joining.", missing=problems.TICKET_REQUIRED)
PASS = Header("Holdfast-Pass", "Where the sale has a waiting room.")
RETRY = Header(
    "Holdfast-Retry",
    "Any value, on a retry after a lost answer: a proxy that refuses for a sold-out sale lets it through.",
)
RECEIPT = Header("Holdfast-Receipt", "The receipt from the response to reserve.")
IF_NONE_MATCH = Header("If-None-Match", "The ETag of an earlier answer.")
LAST_EVENT_ID = Header("Last-Event-ID", "The ID of the last event that was seen.")

REPLAYED_NOTE = "`true` if this repeats the first result."
RECEIPT_NOTE = "Where Redis is the gate: proof that this was granted, to be sent back in the same header."
FOR_THE_EDGE = (
    "For proxies in front of the server: `state`, `room`, the server's `time` in seconds since 1970, and `shed` while "
    "nothing new may begin."
)
CACHE_TAGS = {
    "Cache-Tag": "`sale-` and the ID of the sale: a purge of this tag empties a CDN of it.",
    "Surrogate-Key": "The same tag, under the name that other CDNs read.",
}
