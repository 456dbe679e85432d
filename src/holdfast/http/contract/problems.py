"""The problem catalogue: every reason a request can be refused for, with its status, its words, and what to do.

The same codes are used by the CLI, the SDKs, the webhooks and the docs. `retryable` comes from the gate's outcome where
there is one (`Outcome.is_transient`).
"""

from collections.abc import Iterator

from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status
from holdfast.http.contract import cell_problems, message_problems, payment_problems, team_problems
from holdfast.http.contract.problem import ProblemKind

MAX_BODY_BYTES = 16 * 1024
MAX_HEADER_BYTES = 64 * 1024
# Of a path, once it is decoded. The longest of ours has two IDs.
MAX_PATH_CHARACTERS = 1024

_RETRY = "Retry after the time in `Retry-After`."
_LIST = "Check the ID. It may belong to another caller."
_REJOIN = "Join again for a place at the end of the queue."
_NEW_QUOTE = "Ask for a new quote, and purchase with a new idempotency key."
_NEW_REQUEST = "Correct the request; retrying it unchanged fails again."


def _kind(
    status: int, reason: str, title: str, detail: str, action: str = "", *, retryable: bool = False
) -> ProblemKind:
    return ProblemKind(reason=reason, status=status, title=title, detail=detail, action=action, retryable=retryable)


def _decided(outcome: Outcome, status: int, reason: str, title: str, detail: str, action: str = "") -> ProblemKind:
    return _kind(status, reason, title, detail, action, retryable=outcome.is_transient)


# Requests that cannot be read.
INVALID_JSON = _kind(400, "invalid_json", "The body is not JSON", "Send a JSON object as the body.", _NEW_REQUEST)
INVALID_REQUEST = _kind(
    422,
    "invalid_request",
    "The request is not valid",
    "A field is missing, unknown, of the wrong type or out of range; `errors` names each one.",
    _NEW_REQUEST,
)
REQUEST_TIMEOUT = _kind(
    408, "request_timeout", "Request timeout", "The body did not arrive in time.", "Send it again.", retryable=True
)
BODY_TOO_LARGE = _kind(413, "body_too_large", "Body too large", f"Send at most {MAX_BODY_BYTES} bytes.", _NEW_REQUEST)
HEADERS_TOO_LARGE = _kind(
    431, "headers_too_large", "Headers too large", f"Send at most {MAX_HEADER_BYTES} bytes of headers.", _NEW_REQUEST
)
INVALID_HEADER = _kind(
    400,
    "invalid_header",
    "A header cannot be read",
    "The value of a header is not ASCII text, or is not valid for this header.",
    _NEW_REQUEST,
)
PATH_TOO_LONG = _kind(
    414, "path_too_long", "Path too long", f"Send a path of at most {MAX_PATH_CHARACTERS} characters.", _NEW_REQUEST
)
NOT_FOUND = _kind(404, "not_found", "Not found", "There is nothing at this address. See /docs.")
METHOD_NOT_ALLOWED = _kind(
    405, "method_not_allowed", "Method not allowed", "Method not allowed; see Allow.", "Use a method listed in `Allow`."
)

# Callers.
UNAUTHORIZED = _kind(
    401,
    "unauthorized",
    "Not signed in",
    "Credentials are missing, unknown, expired or revoked.",
    "Send `Authorization: Bearer …` with a valid service key or buyer token.",
)
FORBIDDEN = _kind(
    403, "forbidden", "Not allowed", "These credentials are valid but do not allow this.", "Use a key with the scope."
)
SIGNATURE_REFUSED = _kind(
    401, "signature_refused", "Not signed by the provider", "The signature is missing, wrong or too old."
)
RATE_LIMITED = _kind(
    429,
    "rate_limited",
    "Too many requests",
    "Rate limit exceeded.",
    "Wait as long as `Retry-After` says, and poll no faster than `next_poll_ms`.",
    retryable=True,
)

# The server.
BUSY = _kind(
    503, "busy", "Busy", "Too many requests are waiting. Nothing was changed; retry shortly.", _RETRY, retryable=True
)
NOT_READY = _decided(
    Outcome.NOT_READY,
    503,
    "not_ready",
    "Not ready",
    "The store cannot be reached. Nothing was changed; retry shortly.",
    _RETRY,
)
OUTCOME_UNKNOWN = _kind(
    503,
    "outcome_unknown",
    "Outcome unknown",
    "It is unknown whether this was carried out.",
    "The detail says how to retry safely; the same idempotency key finds the outcome.",
    retryable=True,
)
INTERNAL_ERROR = _kind(
    500,
    "internal_error",
    "Internal error",
    "Something failed on our side. The request ID finds it in the logs.",
    "Report it with the request ID.",
)

# What was not found.
SKU_NOT_FOUND = _decided(
    Outcome.POOL_NOT_FOUND,
    404,
    "sku_not_found",
    "No such SKU",
    "There is no pool for this SKU.",
    "Create it with PUT /v1/inventory/{sku_id}.",
)
SALE_NOT_FOUND = _kind(404, "sale_not_found", "No such sale", "There is no sale with this ID.", "Check the ID.")
RESERVATION_NOT_FOUND = _decided(
    Outcome.NOT_FOUND,
    404,
    "reservation_not_found",
    "No such reservation",
    "No reservation with this ID is visible to you.",
    _LIST,
)
ORDER_NOT_FOUND = _kind(404, "order_not_found", "No such order", "No order with this ID is visible to you.", _LIST)
WEBHOOK_NOT_FOUND = _kind(404, "webhook_not_found", "No such webhook", "There is no webhook with this ID.")
DELIVERY_NOT_FOUND = _kind(404, "delivery_not_found", "No such delivery", "This webhook has no delivery with this ID.")
KEY_NOT_FOUND = _kind(404, "key_not_found", "No such key", "There is no service key with this ID.")
PARKED_NOT_FOUND = _kind(404, "parked_not_found", "Not parked", "Nothing is parked under this ID, or not any more.")
RESERVATION_LOST = _kind(
    410,
    "reservation_lost",
    "Reservation lost",
    "It was granted, and lost when the stock was restored after a failure. Nothing was sold or charged.",
    "Reserve again.",
)

# Idempotency.
IDEMPOTENCY_KEY_REQUIRED = _kind(
    400,
    "idempotency_key_required",
    "Idempotency key required",
    "Send an `Idempotency-Key` header: a new one for each operation, the same one when you retry it.",
)
IDEMPOTENCY_KEY_REUSED = _decided(
    Outcome.KEY_REUSED,
    422,
    "idempotency_key_reused",
    "Idempotency key reused",
    "This key was used with another request.",
    "Use a new key for a new request.",
)

# Stock.
INSUFFICIENT_INVENTORY = _decided(
    Outcome.INSUFFICIENT,
    409,
    "insufficient_inventory",
    "Not enough units",
    "Fewer units are free than were asked for.",
    "Ask for at most `available`, or set `min_quantity`.",
)
ALL_HELD = _decided(
    Outcome.ALL_HELD,
    409,
    "all_held",
    "All held",
    "No unit is free now; some are held and may come back.",
    "Retry at `next_return_at`.",
)
SOLD_OUT = _decided(Outcome.SOLD_OUT, 409, "sold_out", "Sold out", "Every unit is sold.")
BUYER_LIMIT = _decided(
    Outcome.BUYER_LIMIT,
    409,
    "buyer_limit",
    "Limit reached",
    "This owner may not have more units of this SKU.",
    "In a sale, `reservation_ids` are your own holds: continue with one of them. In a drop, `drop_id` and `limit` too.",
)
HOLD_BUDGET = _decided(
    Outcome.HOLD_BUDGET, 409, "hold_budget", "Too many unpaid holds", "This owner let too many holds lapse unpaid."
)
TIER_REQUIRED = _decided(
    Outcome.TIER_REQUIRED, 403, "tier_required", "Tier required", "This needs a higher account tier."
)
EXTENSION_LIMIT = _decided(
    Outcome.EXTENSION_LIMIT,
    409,
    "extension_limit",
    "Maximum hold time reached",
    "The hold has reached its maximum time.",
    "Confirm or cancel it before `latest_expires_at`.",
)
BELOW_COMMITTED = _kind(
    409, "below_committed", "Below what is committed", "More units are held or sold than the total would be."
)
SHARDS_IMMUTABLE = _kind(
    409, "shards_immutable", "Shards cannot be changed", "A pool's shards are chosen when it is created."
)

# Sales.
SALE_NOT_OPEN = _decided(
    Outcome.NOT_OPEN, 409, "sale_not_open", "Not open yet", "The sale has not started.", "Retry at `starts_at`."
)
SALE_PAUSED = _decided(
    Outcome.PAUSED, 409, "sale_paused", "Paused", "The sale is paused.", "Poll /now until it is open."
)
SALE_ENDED = _decided(Outcome.ENDED, 409, "sale_ended", "Ended", "The sale has ended.")
SALE_EXISTS = _kind(409, "sale_exists", "Sale exists", "Another sale already has this ID.", "Choose another ID.")
DROP_NOT_FOUND = _kind(404, "drop_not_found", "No such drop", "There is no drop with this ID.", "Check the ID.")
DROP_EXISTS = _kind(409, "drop_exists", "Drop exists", "Another drop already has this ID.", "Choose another ID.")
DROP_FULL = _kind(409, "drop_full", "Drop is full", "A drop has at most 50 sales.", "Create another drop.")
SKU_IN_SALE = _kind(
    409, "sku_in_sale", "SKU in a sale", "This SKU is in another sale that is not closed yet.", "Close that sale first."
)
SALE_STARTED = _kind(
    409,
    "sale_started",
    "Sale started",
    "The price, its currency, how it is paid and the start cannot change from a few seconds before the start.",
)
ORDER_FIXED = _kind(
    409,
    "order_fixed",
    "Order is fixed",
    "The room's order cannot change once somebody is in it, or the sale is about to start.",
)
POOL_IN_SALE = _kind(
    409,
    "pool_in_sale",
    "Pool is in a sale",
    "A sale runs on this pool; its rules and stock change only through the sale.",
    "Change the sale (`PATCH /v1/sales/{id}`), or restock it (`POST /v1/sales/{id}/restock`).",
)
ADDRESS_LIMIT = _kind(
    409,
    "address_limit",
    "Limit of the address reached",
    "Clients of this address have reached the sale's limit of units per address.",
)
ATTEMPT_LIMIT = _kind(
    409, "attempt_limit", "Too many attempts", "This buyer has used all purchase attempts of this sale."
)
QUOTE_EXPIRED = _kind(409, "quote_expired", "Quote expired", "The quote is too old; nothing was reserved.", _NEW_QUOTE)
QUOTE_MISMATCH = _kind(
    409, "quote_mismatch", "Not for this purchase", "The quote is unknown, or for another purchase.", _NEW_QUOTE
)
NOT_LOADED = _kind(409, "sale_not_loaded", "Not loaded", "The sale has no pool yet; its `problem` says why.")
RESTOCK_UNKNOWN = _kind(
    409,
    "restock_unknown",
    "Outcome unknown",
    "The answer to the first request under this key was lost.",
    "Check `total_units`, then restock with a new key if needed.",
)

# The waiting room.
ADMISSION_REQUIRED = _kind(
    429,
    "admission_required",
    "Wait for your turn",
    "This sale has a waiting room. Send a valid `Holdfast-Pass`.",
    "Join the queue, then ask for a pass when it is your turn.",
)
NO_WAITING_ROOM = _kind(
    409, "no_waiting_room", "No waiting room", "The sale has no waiting room.", "Purchase without a pass."
)
TICKET_REQUIRED = _kind(
    400, "ticket_required", "Ticket required", "Send your ticket in the `Holdfast-Ticket` header; joining returns one."
)
TICKET_INVALID = _kind(
    403,
    "ticket_invalid",
    "Not a valid ticket",
    "The ticket is not yours, is for another sale, or has expired.",
    "Join again: you keep your place if you have one.",
)
PLACE_RELEASED = _kind(409, "place_released", "No place", "You left, or joined again since.", _REJOIN)
REJOIN_LIMIT = _kind(409, "rejoin_limit", "Left too often", "You left this queue too often to join it again.")
PASS_EXPIRED = _kind(409, "pass_expired", "Pass expired", "You had your turn, and your pass has expired.", _REJOIN)
LOTTERY_NOT_DRAWN = _kind(
    409,
    "lottery_not_drawn",
    "Not drawn",
    "There is no draw yet. The list is published when a lottery opens; other rooms have none.",
)
BEACON_NOT_DUE = _kind(
    409,
    "beacon_not_due",
    "No public value is awaited",
    "The sale names no public value for its draw, its list is not closed yet, or the value was entered before.",
)
TOO_MANY_PLACES = _kind(
    429,
    "too_many_places",
    "Too many places",
    "This address has the maximum number of places in the queue.",
    _RETRY,
    retryable=True,
)
PROOF_REQUIRED = _kind(
    403, "proof_required", "Proof required", "This sale asks for proof of work.", "Solve a challenge first."
)
PROOF_INVALID = _kind(
    403, "proof_invalid", "Proof not valid", "This is not the solution of a challenge for this sale and buyer."
)
PROOF_EXPIRED = _kind(403, "proof_expired", "Proof expired", "The challenge is too old.", "Solve a new challenge.")
PROOF_SPENT = _kind(403, "proof_spent", "Proof spent", "This proof was used before.", "Solve a new challenge.")

JOIN_DENIED = _kind(403, "join_denied", "Not allowed to join", "This account cannot join this sale.")
DEVICE_REQUIRED = _kind(403, "device_required", "Device required", "This sale asks for a token.", "Send `device`.")
DEVICE_LIMIT = _kind(409, "device_limit", "Limit of the device reached", "Other accounts joined from this device.")

# Money.
ORDER_NOT_PAID = _kind(
    409, "order_not_paid", "Order not paid", "The order is not paid, or does not stand any more.", "See its status."
)
ORDER_FULFILLED = _kind(
    409, "order_fulfilled", "Order fulfilled", "The order was fulfilled with another tracking number."
)
REFUND_EXCEEDS_ORDER = _kind(
    409, "refund_exceeds_order", "More than is left", "The refund is higher than what is left of the order."
)
RESTOCK_NEEDS_FULL_REFUND = _kind(
    422, "restock_needs_full_refund", "Restock needs a full refund", "Units return only with a full refund."
)
MONEY_IS_OUT = _kind(
    409, "money_is_out", "Payment taken", "Money was taken, or may have been.", "Retry the item instead of dropping it."
)

# Webhooks.
TOO_MANY_WEBHOOKS = _kind(
    409, "too_many_webhooks", "Too many webhooks", "The maximum number of webhooks exists.", "Remove one first."
)

# A move of a reservation that its state does not allow.
RESERVATION_STATES: dict[Status, ProblemKind] = {
    status: _decided(
        Outcome.ILLEGAL,
        409,
        f"reservation_{status}",
        f"Reservation {status}",
        f"The reservation is {status}; this is no longer possible.",
    )
    for status in Status
    if status is not Status.ACTIVE
}

STOCK_REFUSALS = (
    INSUFFICIENT_INVENTORY, SKU_NOT_FOUND, IDEMPOTENCY_KEY_REUSED, SALE_NOT_OPEN, SALE_PAUSED, SALE_ENDED,
    TIER_REQUIRED, BUYER_LIMIT, HOLD_BUDGET, NOT_READY,
)  # fmt: skip
PURCHASE_REFUSALS = (
    ALL_HELD, SOLD_OUT, INSUFFICIENT_INVENTORY, IDEMPOTENCY_KEY_REUSED, SALE_NOT_OPEN, SALE_PAUSED, SALE_ENDED,
    TIER_REQUIRED, BUYER_LIMIT, ADDRESS_LIMIT, ATTEMPT_LIMIT, HOLD_BUDGET, QUOTE_EXPIRED, QUOTE_MISMATCH, NOT_READY,
)  # fmt: skip
MOVE_REFUSALS = (*RESERVATION_STATES.values(), RESERVATION_NOT_FOUND, RESERVATION_LOST, NOT_READY)
PROOF_REFUSALS = (PROOF_REQUIRED, PROOF_INVALID, PROOF_EXPIRED, PROOF_SPENT)
# Of a provisional ticket that had its place.
USED_TICKETS = (SALE_ENDED, PLACE_RELEASED, PASS_EXPIRED, REJOIN_LIMIT)
TICKET_REFUSALS = (TICKET_REQUIRED, TICKET_INVALID, SALE_NOT_FOUND, NO_WAITING_ROOM)


def _all() -> Iterator[ProblemKind]:
    found = (payment_problems, message_problems, team_problems, cell_problems)
    for value in (*globals().values(), *(each for module in found for each in vars(module).values())):
        if isinstance(value, ProblemKind):
            yield value
    yield from RESERVATION_STATES.values()


# By reason, in order of status.
CATALOGUE = {kind.reason: kind for kind in sorted(_all(), key=lambda kind: kind.status)}
