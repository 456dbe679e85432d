"""One refusal, as stored."""

from msgspec import Struct

# The owner of a line that is only a count: `quantity` requests were shed in that second.
NOBODY = ""


class Refusal(Struct, frozen=True, gc=False, omit_defaults=True):
    """`at_ms` is the host's clock, because querying the engine's would cost more than the refusal."""

    at_ms: int
    sku_id: str
    owner_id: str
    outcome: str
    quantity: int
    available: int | None = None
    next_return_at: int | None = None
    sale_id: str | None = None
    tier: int = 0
    request_id: str = ""
    # If the request was traced.
    trace_id: str = ""


# The SQL types of the same fields. A column added later is null in older segments.
COLUMNS = {
    "at_ms": "BIGINT",
    "sku_id": "VARCHAR",
    "owner_id": "VARCHAR",
    "outcome": "VARCHAR",
    "quantity": "BIGINT",
    "available": "BIGINT",
    "next_return_at": "BIGINT",
    "sale_id": "VARCHAR",
    "tier": "BIGINT",
    "request_id": "VARCHAR",
    "trace_id": "VARCHAR",
}
