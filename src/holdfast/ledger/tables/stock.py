"""The tables, for SQLite and PostgreSQL alike. Times are milliseconds since 1970 by the engine's clock.

Lock order, the one place that states it: a transaction that changes stock locks the row of its pool first and touches
reservations, events and idempotency records of that pool only under that lock. So they need neither locks of their own
nor foreign keys (which would lock the pool row once per inserted row). The same holds for what is copied from a journal
and for claims. No transaction locks two pools. A pool's gives and takes are written under its lock. The total of a
split pool, and transfers from outside to its shards, are written under the lock of its row in `splits`.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    Integer,
    String,
    Table,
    Text,
    func,
    literal_column,
    select,
    text,
    true,
)

from holdfast.ledger.tables.columns import Id, Millis, Sequence, metadata

pools = Table(
    "pools",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("total", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("sold", BigInteger, nullable=False),
    Column("active_reservations", BigInteger, nullable=False),
    Column("ready", Boolean, nullable=False),
    Column("per_owner_limit", BigInteger),
    Column("hold_budget", BigInteger),
    Column("required_tier", BigInteger),
    Column("opens_at", Millis),
    Column("ends_at", Millis),
    Column("paused", Boolean, nullable=False),
    # When the last batch was decided: the pool's clock never goes back past it.
    Column("decided_at", Millis, nullable=False),
    # Where Redis is the gate: the epoch it decides under, and the ledger's position in its journal. 0: it was never in
    # Redis. Negative: it was in Redis, and was retired.
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("journal_seq", BigInteger, nullable=False, server_default="0"),
    # The sale whose rules it has. This may be a closed sale, until another takes the pool.
    Column("sale_id", Id),
    # When the limit per owner was last lowered or introduced: earlier grants may exceed it.
    Column("limit_lowered_at", Millis),
    # Its last `pool.pruned` event.
    Column("pruned_seq", BigInteger),
    # Limits per owner count reservations created since then: those of its current sale. None: all.
    Column("counted_from", Millis),
    CheckConstraint("held >= 0 AND sold >= 0 AND held + sold <= total", name="conservation"),
    CheckConstraint("active_reservations >= 0", name="active_reservations_counted"),
)

reservations = Table(
    "reservations",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    Column("sku_id", Id, nullable=False),
    Column("owner_id", Id, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("status", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    # Whether the pool's rules count owners' units. Only then is the reservation in the index by owner: owners come in
    # no order, so that index costs a batch as much as everything else it writes (ADR 5).
    Column("counted", Boolean, nullable=False, server_default=true()),
    # How often a payment was begun for it.
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("confirmed_at", Millis),
    CheckConstraint("quantity > 0", name="quantity_positive"),
    CheckConstraint(
        "status IN ('active', 'settling', 'confirmed', 'failed', 'cancelled', 'expired')", name="status_known"
    ),
    Index("reservations_by_sku", "sku_id", "reservation_id"),
    sqlite_with_rowid=False,
)
# A literal, not a parameter: only then can the engines use the partial index below.
is_active = reservations.c.status == literal_column("'active'")
active_by_deadline = Index(
    "reservations_active_by_deadline",
    reservations.c.sku_id,
    reservations.c.expires_at,
    reservations.c.reservation_id,
    sqlite_where=text("status = 'active'"),
    postgresql_where=text("status = 'active'"),
)
counted_by_owner = Index(
    "reservations_counted_by_owner",
    reservations.c.owner_id,
    reservations.c.sku_id,
    sqlite_where=text("counted = 1"),
    postgresql_where=text("counted"),
)


def is_counted_in(
    sku_id: ColumnElement[str] | str, created_at: ColumnElement[int] = reservations.c.created_at
) -> ColumnElement[bool]:
    """Whether limits per owner count reservations from that time, that is, of the pool's current sale."""
    since = select(func.coalesce(pools.c.counted_from, 0)).where(pools.c.sku_id == sku_id).scalar_subquery()
    return created_at >= since


events = Table(
    "events",
    metadata,
    Column("seq", Sequence, primary_key=True),
    Column("sku_id", Id, nullable=False),
    Column("reservation_id", Id),
    Column("type", String, nullable=False),
    Column("at", Millis, nullable=False),
    Column("quantity", BigInteger),
    Column("expires_at", Millis),
    # Its other subject: an order, a refund, a sale.
    Column("subject", Id),
    # As JSON: the values that the event gave to rows. None in events of earlier releases.
    Column("facts", Text),
    Index("events_by_reservation", "reservation_id"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("owner_id", Id, primary_key=True),
    Column("key", Id, primary_key=True),
    Column("fingerprint", String, nullable=False),
    Column("reservation_id", Id, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    Index("idempotency_by_age", "created_at"),
    sqlite_with_rowid=False,
)

# Sales that the ledger has confirmed before the journal recorded them. Only where Redis is the gate.
claims = Table(
    "claims",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    Column("sku_id", Id, nullable=False),
    Column("owner_id", Id, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    Column("claimed_at", Millis, nullable=False),
    CheckConstraint("quantity > 0", name="claimed_quantity_positive"),
    Index("claims_by_sku", "sku_id"),
)

# Journal entries that the ledger refused, at least in part. The acceptable part was stored; the rest is here, for an
# operator. An entry in its pool's current epoch means that gate and ledger differ until the pool is rebuilt.
parked_entries = Table(
    "parked_entries",
    metadata,
    # sku_id/epoch-seq
    Column("entry_id", Id, primary_key=True),
    Column("sku_id", Id, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("state", String, nullable=False, server_default="parked"),
    Column("reason", String, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="1"),
    Column("created_at", Millis, nullable=False),
    # Its reservations, as JSON.
    Column("history", String, nullable=False),
    # All of it as JSON.
    Column("entry", String, nullable=False),
    CheckConstraint("state IN ('parked', 'dropped')", name="parked_entry_state_known"),
    Index("parked_entries_by_pool", "sku_id", "epoch"),
)

# Where Redis is the gate: how many shards a SKU has, chosen once, and their total units.
splits = Table(
    "splits",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("shards", Integer, nullable=False),
    Column("total", BigInteger, nullable=False),
    CheckConstraint("shards > 0 AND total >= 0", name="split_possible"),
)

# Units that left one pool for another: in transfer until `taken_at`. For units that are added or removed, the SKU
# itself is the donor or the receiver. The total of a SKU is that of its shards plus the units in transfer.
transfers = Table(
    "transfers",
    metadata,
    Column("donor", Id, primary_key=True),
    Column("receiver", Id, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("units", BigInteger, nullable=False),
    Column("given_at", Millis, nullable=False),
    Column("taken_at", Millis),
    CheckConstraint("units > 0", name="transferred_units_positive"),
    Index("transfers_by_receiver", "receiver", "donor", "number"),
)
is_in_transfer = transfers.c.taken_at.is_(None)
transfers_pending = Index(
    "transfers_on_their_way",
    transfers.c.given_at,
    sqlite_where=text("taken_at IS NULL"),
    postgresql_where=text("taken_at IS NULL"),
)

pool_counts = Table(
    "pool_counts",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

# The same over time (`ledger/stock/history.py`).
pool_history = Table(
    "pool_history",
    metadata,
    Column("sku_id", Id, primary_key=True),
    # The length of the span, and its start.
    Column("seconds", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Millis, primary_key=True, autoincrement=False),
    Column("name", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
