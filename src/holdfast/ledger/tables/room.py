"""The waiting room: who is in line, and how far the line is.

Lock order: a transaction that changes a room locks its row first and touches places of that room only under that lock;
it locks nothing else. A change of the sale's mode locks the sale before. So arrival numbers have no gaps, and the
counters of the row are exact.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    String,
    Table,
    Text,
    false,
    text,
)

from holdfast.ledger.tables.columns import Id, Millis, metadata


def _count(name: str) -> "Column[int]":
    return Column(name, BigInteger, nullable=False, server_default="0")


rooms = Table(
    "rooms",
    metadata,
    Column("sale_id", Id, primary_key=True),
    # How many have joined, which is also the next arrival number.
    _count("joined"),
    # How many places have been called. Never decreases.
    _count("serving"),
    # Set by an operator: a rate other than the sale's, a pause, a number to admit by hand.
    Column("rate_per_second", BigInteger),
    Column("paused", Boolean, nullable=False, server_default=false()),
    _count("admit"),
    # The lottery. The seed is sealed until the draw; `entrants` is set when the list is closed.
    Column("seed", String, nullable=False),
    Column("seed_hash", String, nullable=False),
    Column("entrants", BigInteger),
    Column("digest", String),
    Column("opened_at", Millis),
    # Buyers' actions, counted as they happen; see `Counts` in domain/room/pace.py.
    _count("passes_given"),
    _count("passes_used"),
    _count("stale_used"),
    _count("units_taken"),
    # What buyers did not do, counted by the line advancer up to `counted_at`, and in places up to `called_to`.
    _count("passes_lapsed"),
    _count("passes_stale"),
    _count("calls_lapsed"),
    _count("called_to"),
    # Passes given to places from `called_to` on.
    _count("answered"),
    Column("counted_at", Millis, nullable=False, server_default="0"),
    # As JSON, for the line advancer only: the pace, recent calls, the last measurements.
    Column("advancer_state", Text),
    # The lease of the line advancer. `fence` counts how often it changed hands.
    Column("advancer", String),
    Column("leased_until", Millis, nullable=False, server_default="0"),
    _count("fence"),
    Column("created_at", Millis, nullable=False),
    # Places from `serving` on whose buyers left: they are skipped. `leaves` counts every leave, and never decreases.
    _count("left"),
    _count("leaves"),
    # How many had left a lottery when its list was closed. They are not on it.
    _count("unlisted"),
    # The kind of line that people join (arrival order or lottery), even while the room is off.
    Column("mode", String),
    # The input that is mixed into the draw, and the public source that was named beforehand, once an operator entered
    # it.
    Column("beacon", String),
    Column("beacon_value", String),
    # How many of its places were pruned, in order of arrival.
    _count("pruned"),
    # After all places were pruned: events of the room before this number are still to be pruned. None if there are
    # none.
    Column("unpruned_before", BigInteger),
    CheckConstraint("serving >= 0 AND serving <= joined", name="serving_within_joined"),
)

# The line advancer's own state: its lease, the pace, and how far it has counted. No event records it.
FOR_ADVANCER = frozenset(
    (
        "advancer", "advancer_state", "answered", "called_to", "calls_lapsed", "counted_at", "fence", "leased_until",
        "passes_lapsed", "passes_stale", "stale_used",
    )
)  # fmt: skip

places = Table(
    "places",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("arrival", BigInteger, primary_key=True),
    Column("buyer_id", Id, nullable=False),
    Column("ticket_id", String, nullable=False),
    Column("joined_at", Millis, nullable=False),
    # From 0. Every process can compute it; written when the pass is given.
    Column("place", BigInteger),
    Column("stale_at", Millis),
    Column("pass_until", Millis),
    Column("used_at", Millis),
    # The buyer left, or joined again after the pass expired.
    Column("ended_at", Millis),
    # The buyer left before being called: the place that is skipped, or -1 for one who left before the list was closed.
    Column("left_place", BigInteger),
    # When the request reached a socket, and when a provisional ticket was staged. Places of earlier releases have none.
    Column("arrived_at", Millis),
    Column("staged_at", Millis),
    # For an erased buyer: the line of the published list, which can no longer be computed.
    Column("entry", String),
    sqlite_with_rowid=False,
)
one_place_per_buyer = Index(
    "places_one_per_buyer",
    places.c.sale_id,
    places.c.buyer_id,
    unique=True,
    sqlite_where=text("ended_at IS NULL"),
    postgresql_where=text("ended_at IS NULL"),
)
for _name, _column in (
    ("places_by_place", places.c.place),
    ("places_by_stale_at", places.c.stale_at),
    ("places_by_pass_until", places.c.pass_until),
):
    Index(
        _name,
        places.c.sale_id,
        _column,
        sqlite_where=text("place IS NOT NULL"),
        postgresql_where=text("place IS NOT NULL"),
    )

places_left = Index(
    "places_left",
    places.c.sale_id,
    places.c.left_place,
    places.c.arrival,
    sqlite_where=text("left_place IS NOT NULL"),
    postgresql_where=text("left_place IS NOT NULL"),
)
places_ended = Index(
    "places_ended",
    places.c.sale_id,
    places.c.buyer_id,
    sqlite_where=text("ended_at IS NOT NULL"),
    postgresql_where=text("ended_at IS NOT NULL"),
)

# Arrivals that were not joined at once, because the store was away or the crowd was larger than it takes. They are
# written without a lock, and become places in order of their stamps (ledger/room/arrivals.py).
arrivals = Table(
    "arrivals",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("buyer_id", Id, primary_key=True),
    Column("ticket_id", String, nullable=False),
    Column("arrived_at", Millis, nullable=False),
    Column("node", Id, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("staged_at", Millis, nullable=False),
    Index("arrivals_in_order", "sale_id", "arrived_at", "node", "sequence"),
    Index("arrivals_by_staging", "sale_id", "staged_at"),
    sqlite_with_rowid=False,
)

# The gate's latency, as measured by each server process for the pools it serves.
gate_slowness = Table(
    "gate_slowness",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("process", String, primary_key=True),
    Column("slowness_ms", Integer, nullable=False),
    Column("at", Millis, nullable=False),
)

spent_challenges = Table(
    "spent_challenges",
    metadata,
    Column("challenge_id", Id, primary_key=True),
    Column("sale_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    # Determines which of several concurrent claims was first.
    Column("claim", BigInteger, nullable=False),
    Column("expires_at", Millis, nullable=False),
    Index("spent_challenges_by_expiry", "expires_at"),
)

# The buyers who joined from a device, while `HOLDFAST_ACCOUNTS_PER_DEVICE` limits them. `device` is a keyed hash.
device_accounts = Table(
    "device_accounts",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("device", String, primary_key=True),
    Column("slot", Integer, primary_key=True),
    Column("buyer_id", Id, nullable=False),
    Column("claimed_at", Millis, nullable=False),
    Index("device_accounts_by_age", "claimed_at"),
    sqlite_with_rowid=False,
)
