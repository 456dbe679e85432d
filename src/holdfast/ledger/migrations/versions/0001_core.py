"""Pools, reservations, events, idempotency records and service keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_Sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "pools",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("held", sa.BigInteger, nullable=False),
        sa.Column("sold", sa.BigInteger, nullable=False),
        sa.Column("active_reservations", sa.BigInteger, nullable=False),
        sa.Column("ready", sa.Boolean, nullable=False),
        sa.Column("per_owner_limit", sa.BigInteger),
        sa.Column("hold_budget", sa.BigInteger),
        sa.Column("required_tier", sa.BigInteger),
        sa.Column("opens_at", sa.BigInteger),
        sa.Column("ends_at", sa.BigInteger),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("decided_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("held >= 0 AND sold >= 0 AND held + sold <= total", name="conservation"),
        sa.CheckConstraint("active_reservations >= 0", name="active_reservations_counted"),
    )
    op.create_table(
        "reservations",
        sa.Column("reservation_id", _Id, primary_key=True),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("owner_id", _Id, nullable=False),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("quantity > 0", name="quantity_positive"),
        sa.CheckConstraint(
            "status IN ('active', 'settling', 'confirmed', 'failed', 'cancelled', 'expired')", name="status_known"
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("reservations_by_sku", "reservations", ["sku_id", "reservation_id"])
    op.create_index("reservations_by_owner", "reservations", ["owner_id", "sku_id"])
    op.create_index(
        "reservations_active_by_deadline",
        "reservations",
        ["sku_id", "expires_at", "reservation_id"],
        sqlite_where=sa.text("status = 'active'"),
        postgresql_where=sa.text("status = 'active'"),
    )
    op.create_table(
        "events",
        sa.Column("seq", _Sequence, primary_key=True),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("reservation_id", _Id),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("quantity", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_index("events_by_reservation", "events", ["reservation_id"])
    op.create_table(
        "idempotency",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("owner_id", _Id, primary_key=True),
        sa.Column("key", _Id, primary_key=True),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("reservation_id", _Id, nullable=False),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("idempotency_by_age", "idempotency", ["created_at"])
    op.create_table(
        "service_keys",
        sa.Column("key_id", _Id, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("secret_hash", sa.String, nullable=False),
        sa.Column("scopes", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
