"""The waiting room: who is in line, and how far the line is.

Lock order: a transaction that changes a room locks its row first and touches places of that room only under that lock;
it locks nothing else. Whoever changes the mode of a sale has locked that before. So arrival numbers have no gaps, and
what is counted on the row is exact.
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

from holdfast.ledger.tables import Id, Millis, metadata


def _count(name: str) -> "Column[int]":
    return Column(name, BigInteger, nullable=False, server_default="0")


rooms = Table(
    "rooms",
    metadata,
    Column("sale_id", Id, primary_key=True),
    # How many have joined: the next arrival number.
    _count("joined"),
    # How many places have been called. Only ever grows.
    _count("serving"),
    # What an operator wants: another rate than the sale's, a pause, so many to be let in by hand.
    Column("rate_per_second", BigInteger),
    Column("paused", Boolean, nullable=False, server_default=false()),
    _count("let_in"),
    # The lottery. The seed is secret until the digest is there; `entrants` is set when the list is closed.
    Column("seed", String, nullable=False),
    Column("seed_hash", String, nullable=False),
    Column("entrants", BigInteger),
    Column("digest", String),
    Column("opened_at", Millis),
    # What people did, counted as it happens; see `Counts` in domain/pace.py.
    _count("passes_given"),
    _count("passes_used"),
    _count("stale_used"),
    _count("units_taken"),
    # What they did not do, counted by the usher up to `reckoned_at`, and in places up to `called_to`.
    _count("passes_lapsed"),
    _count("passes_stale"),
    _count("calls_lapsed"),
    _count("called_to"),
    # Passes given to places from `called_to` on.
    _count("answered"),
    Column("reckoned_at", Millis, nullable=False, server_default="0"),
    # As JSON, the usher's alone: the pace, the calls of the last moments, what was seen last.
    Column("ushering", Text),
    # The usher at work. `fence` counts how often the lease changed hands.
    Column("usher", String),
    Column("leased_until", Millis, nullable=False, server_default="0"),
    _count("fence"),
    Column("created_at", Millis, nullable=False),
    CheckConstraint("serving >= 0 AND serving <= joined", name="serving_within_joined"),
)

places = Table(
    "places",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("arrival", BigInteger, primary_key=True),
    Column("buyer_id", Id, nullable=False),
    Column("ticket_id", String, nullable=False),
    Column("joined_at", Millis, nullable=False),
    # From 0. Known to everyone by computing it; written when the pass is given.
    Column("place", BigInteger),
    Column("stale_at", Millis),
    Column("pass_until", Millis),
    Column("used_at", Millis),
    # Left, or its pass is over and the buyer has joined again.
    Column("ended_at", Millis),
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

# How slow the gate is, as each server process sees it; of its own pools only, and only while they are asked.
gate_slowness = Table(
    "gate_slowness",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("process", String, primary_key=True),
    Column("slowness_ms", Integer, nullable=False),
    Column("at", Millis, nullable=False),
)
