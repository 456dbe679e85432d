"""The tables, for SQLite and PostgreSQL alike. Times are milliseconds since 1970 by the engine's clock.

Lock order, the one place that states it: a transaction that changes stock locks the row of its pool first and touches
reservations, events and idempotency records of that pool only under that lock. So they need no locks, and no foreign
keys (which would lock the pool row once per inserted row), of their own. The same holds for what is copied from a
journal and for claims. No transaction locks two pools. What a pool gives and takes is written under its lock; the total
of a pool that is split, and what is given to its shards from outside, under the lock of its row in `splits`.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    literal_column,
    text,
    true,
)

metadata = MetaData()

# Ids compare byte by byte on every engine, so that "sorted by id" means the same in Python, SQLite and PostgreSQL.
Id = String().with_variant(String(collation="C"), "postgresql")
Millis = BigInteger
_Sequence = BigInteger().with_variant(Integer, "sqlite")

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
    # The latest moment a batch of this pool was decided at: its clock never runs backwards past it.
    Column("decided_at", Millis, nullable=False),
    # Where Redis is the gate: the epoch it decides under (0: it never did), and how far the ledger has its journal.
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("journal_seq", BigInteger, nullable=False, server_default="0"),
    # The sale whose rules it has, if it is in one; of a closed sale too, until another takes the pool.
    Column("sale_id", Id),
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
    # Whether the pool's rules count what its owners have. Only then is the reservation in the index by owner: owners
    # come in no order, so that index costs a batch as much as everything else it writes (ADR 0005).
    Column("counted", Boolean, nullable=False, server_default=true()),
    CheckConstraint("quantity > 0", name="quantity_positive"),
    CheckConstraint(
        "status IN ('active', 'settling', 'confirmed', 'failed', 'cancelled', 'expired')", name="status_known"
    ),
    Index("reservations_by_sku", "sku_id", "reservation_id"),
    sqlite_with_rowid=False,
)
# Written out, not as a parameter: only then do the engines see that the partial index below serves the question.
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

events = Table(
    "events",
    metadata,
    Column("seq", _Sequence, primary_key=True),
    Column("sku_id", Id, nullable=False),
    Column("reservation_id", Id),
    Column("type", String, nullable=False),
    Column("at", Millis, nullable=False),
    Column("quantity", BigInteger),
    Column("expires_at", Millis),
    # What else it is about: an order, a refund, a sale.
    Column("subject", Id),
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

# Units that the ledger has let go for good before the journal told it of the sale. Only while Redis is the gate.
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

# Where Redis is the gate: how many shards a SKU has, chosen once, and how many units they have together.
splits = Table(
    "splits",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("shards", Integer, nullable=False),
    Column("total", BigInteger, nullable=False),
    CheckConstraint("shards > 0 AND total >= 0", name="split_possible"),
)

# Units that left one pool for another: on their way until `taken_at`. Donor or receiver is the SKU itself where units
# come from outside, or leave. The total of a SKU is that of its shards and what is on its way.
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
is_on_its_way = transfers.c.taken_at.is_(None)
on_their_way = Index(
    "transfers_on_their_way",
    transfers.c.given_at,
    sqlite_where=text("taken_at IS NULL"),
    postgresql_where=text("taken_at IS NULL"),
)

service_keys = Table(
    "service_keys",
    metadata,
    Column("key_id", Id, primary_key=True),
    Column("name", String, nullable=False),
    Column("secret_hash", String, nullable=False),
    Column("scopes", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("revoked_at", Millis),
)
