"""The waiting room."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def _count(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)


def upgrade() -> None:
    _create_rooms()
    _create_places()
    op.create_table(
        "gate_slowness",
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("process", sa.String(), nullable=False),
        sa.Column("slowness_ms", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sku_id", "process"),
    )


def _create_rooms() -> None:
    op.create_table(
        "rooms",
        sa.Column("sale_id", _Id, nullable=False),
        _count("joined"),
        _count("serving"),
        sa.Column("rate_per_second", sa.BigInteger()),
        sa.Column("paused", sa.Boolean(), server_default=sa.false(), nullable=False),
        _count("let_in"),
        sa.Column("seed", sa.String(), nullable=False),
        sa.Column("seed_hash", sa.String(), nullable=False),
        sa.Column("entrants", sa.BigInteger()),
        sa.Column("digest", sa.String()),
        sa.Column("opened_at", sa.BigInteger()),
        _count("passes_given"),
        _count("passes_used"),
        _count("stale_used"),
        _count("units_taken"),
        _count("passes_lapsed"),
        _count("passes_stale"),
        _count("calls_lapsed"),
        _count("called_to"),
        _count("answered"),
        _count("reckoned_at"),
        sa.Column("ushering", sa.Text()),
        sa.Column("usher", sa.String()),
        _count("leased_until"),
        _count("fence"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("serving >= 0 AND serving <= joined", name="serving_within_joined"),
        sa.PrimaryKeyConstraint("sale_id"),
    )


def _create_places() -> None:
    op.create_table(
        "places",
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("arrival", sa.BigInteger(), nullable=False),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("ticket_id", sa.String(), nullable=False),
        sa.Column("joined_at", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.BigInteger()),
        sa.Column("stale_at", sa.BigInteger()),
        sa.Column("pass_until", sa.BigInteger()),
        sa.Column("used_at", sa.BigInteger()),
        sa.Column("ended_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("sale_id", "arrival"),
        sqlite_with_rowid=False,
    )
    lives, has_pass = sa.text("ended_at IS NULL"), sa.text("place IS NOT NULL")
    op.create_index(
        "places_one_per_buyer",
        "places",
        ["sale_id", "buyer_id"],
        unique=True,
        sqlite_where=lives,
        postgresql_where=lives,
    )
    for column in ("place", "stale_at", "pass_until"):
        op.create_index(
            f"places_by_{column}", "places", ["sale_id", column], sqlite_where=has_pass, postgresql_where=has_pass
        )
