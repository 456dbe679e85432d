"""Sales, orders, and the money behind them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("events", sa.Column("subject", _Id))
    op.add_column("pools", sa.Column("sale_id", _Id))
    _create_sales()
    _create_orders()
    _create_settlements()
    _create_payments()
    _create_refunds()
    _create_wallet_accounts()
    _create_wallet_entries()


def _index(name: str, table: str, column: str, where: str) -> None:
    """One that holds only some of the rows."""
    op.create_index(name, table, [column], sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _create_sales() -> None:
    op.create_table(
        "sales",
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String()),
        sa.Column("image_url", sa.String()),
        sa.Column("price_amount", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("starts_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger()),
        sa.Column("per_buyer_limit", sa.BigInteger()),
        sa.Column("hold_seconds", sa.BigInteger(), nullable=False),
        sa.Column("max_hold_seconds", sa.BigInteger(), nullable=False),
        sa.Column("hold_budget", sa.BigInteger()),
        sa.Column("required_tier", sa.BigInteger()),
        sa.Column("checkout", sa.String(), nullable=False),
        sa.Column("payment", sa.String(), nullable=False),
        sa.Column("loaded_units", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("oversell_policy", sa.String(), nullable=False),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("proof_of_work", sa.Text()),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("problem", sa.String()),
        sa.Column("paused", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("opened_at", sa.BigInteger()),
        sa.Column("closed_at", sa.BigInteger()),
        sa.CheckConstraint("state IN ('loading', 'ready', 'closed')", name="sale_state_known"),
        sa.CheckConstraint("price_amount >= 0", name="price_not_negative"),
        sa.PrimaryKeyConstraint("sale_id"),
    )
    op.create_index(
        "sales_one_per_sku",
        "sales",
        ["sku_id"],
        unique=True,
        sqlite_where=sa.text("state <> 'closed'"),
        postgresql_where=sa.text("state <> 'closed'"),
    )


def _create_orders() -> None:
    op.create_table(
        "orders",
        sa.Column("order_id", _Id, nullable=False),
        sa.Column("reservation_id", _Id, nullable=False),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("payment", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("refunded_amount", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("status IN ('confirmed', 'refunded', 'cancelled')", name="order_status_known"),
        sa.CheckConstraint("refunded_amount >= 0 AND refunded_amount <= amount", name="refunded_within_amount"),
        sa.PrimaryKeyConstraint("order_id"),
        sa.UniqueConstraint("reservation_id"),
    )
    op.create_index("orders_by_buyer", "orders", ["buyer_id", "order_id"])
    op.create_index("orders_by_sale", "orders", ["sale_id", "order_id"])


def _create_settlements() -> None:
    op.create_table(
        "settlements",
        sa.Column("reservation_id", _Id, nullable=False),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), server_default="waiting", nullable=False),
        sa.Column("ending", sa.String()),
        sa.Column("successor_id", _Id),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.String()),
        sa.Column("history", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "state IN ('waiting', 'telling', 'done', 'parked', 'dropped')", name="settlement_state_known"
        ),
        sa.PrimaryKeyConstraint("reservation_id"),
    )
    op.create_index(
        "settlements_due",
        "settlements",
        ["sku_id", "due_at"],
        sqlite_where=sa.text("state IN ('waiting', 'telling')"),
        postgresql_where=sa.text("state IN ('waiting', 'telling')"),
    )
    _index("settlements_by_successor", "settlements", "successor_id", "successor_id IS NOT NULL")
    _index("settlements_parked", "settlements", "created_at", "state = 'parked'")


def _create_payments() -> None:
    op.create_table(
        "payments",
        sa.Column("payment_key", _Id, nullable=False),
        sa.Column("reservation_id", _Id, nullable=False),
        sa.Column("sale_id", _Id, nullable=False),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("method", sa.String()),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reference", sa.String()),
        sa.Column("reason", sa.String()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "state IN ('new', 'attempted', 'authorised', 'claimed', 'captured', 'declined', 'voided')",
            name="payment_state_known",
        ),
        sa.PrimaryKeyConstraint("payment_key"),
        sa.UniqueConstraint("reservation_id"),
    )
    _index("payments_set_aside", "payments", "updated_at", "state IN ('attempted', 'authorised', 'claimed')")
    _index("payments_captured", "payments", "updated_at", "state = 'captured'")


def _create_refunds() -> None:
    op.create_table(
        "refunds",
        sa.Column("refund_id", _Id, nullable=False),
        sa.Column("payment_key", _Id, nullable=False),
        sa.Column("order_id", _Id),
        sa.Column("key", _Id),
        sa.Column("asked_amount", sa.BigInteger()),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("restock_units", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cause", sa.String(), nullable=False),
        sa.Column("state", sa.String(), server_default="waiting", nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.String()),
        sa.Column("history", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger()),
        sa.CheckConstraint("state IN ('waiting', 'telling', 'done', 'parked', 'dropped')", name="refund_state_known"),
        sa.CheckConstraint("amount >= 0", name="refund_not_negative"),
        sa.PrimaryKeyConstraint("refund_id"),
    )
    op.create_index("refunds_by_key", "refunds", ["order_id", "key"], unique=True)
    op.create_index("refunds_by_payment", "refunds", ["payment_key"])
    op.create_index(
        "refunds_due",
        "refunds",
        ["due_at"],
        sqlite_where=sa.text("state IN ('waiting', 'telling')"),
        postgresql_where=sa.text("state IN ('waiting', 'telling')"),
    )
    _index("refunds_parked", "refunds", "created_at", "state = 'parked'")


def _create_wallet_accounts() -> None:
    op.create_table(
        "wallet_accounts",
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("balance", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("balance >= 0", name="balance_not_negative"),
        sa.PrimaryKeyConstraint("buyer_id", "currency"),
    )


def _create_wallet_entries() -> None:
    op.create_table(
        "wallet_entries",
        sa.Column("transfer_id", _Id, nullable=False),
        sa.Column("account", _Id, nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reservation_id", _Id),
        sa.Column("balance", sa.BigInteger()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("transfer_id", "account"),
    )
    op.create_index("wallet_entries_by_account", "wallet_entries", ["account", "at"])
