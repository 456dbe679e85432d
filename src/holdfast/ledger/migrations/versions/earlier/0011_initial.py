"""All tables, written out: a migration must not change when the declared tables do. 0001 to 0010 were development."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = None

_Id = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_Number = sa.BigInteger()
_Sequence = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_stock()
    _create_events_and_transfers()
    _create_sales_and_orders()
    _create_settlements_and_payments()
    _create_refunds_and_wallet()
    _create_room()
    _create_places()
    _create_webhooks_and_access()


def _columns(
    type_: sa.types.TypeEngine[Any], *names: str, nullable: bool = False, default: str | None = None
) -> Iterator[sa.Column[Any]]:
    return (sa.Column(name, type_, nullable=nullable, server_default=default) for name in names)


def _index(name: str, table: str, columns: list[str], where: str | None = None, *, unique: bool = False) -> None:
    """With `where`, of only some rows."""
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _create_stock() -> None:
    op.create_table(
        "pools",
        sa.Column("sku_id", _Id, primary_key=True),
        *_columns(_Number, "total", "held", "sold", "active_reservations"),
        sa.Column("ready", sa.Boolean(), nullable=False),
        *_columns(_Number, "per_owner_limit", "hold_budget", "required_tier", "opens_at", "ends_at", nullable=True),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("decided_at", _Number, nullable=False),
        *_columns(_Number, "epoch", "journal_seq", default="0"),
        sa.Column("sale_id", _Id),
        sa.CheckConstraint("active_reservations >= 0", name="active_reservations_counted"),
        sa.CheckConstraint("held >= 0 AND sold >= 0 AND held + sold <= total", name="conservation"),
    )
    op.create_table(
        "reservations",
        sa.Column("reservation_id", _Id, primary_key=True),
        *_columns(_Id, "sku_id", "owner_id"),
        sa.Column("quantity", _Number, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        *_columns(_Number, "created_at", "expires_at"),
        sa.Column("counted", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.CheckConstraint("quantity > 0", name="quantity_positive"),
        sa.CheckConstraint(
            "status IN ('active', 'settling', 'confirmed', 'failed', 'cancelled', 'expired')", name="status_known"
        ),
        sqlite_with_rowid=False,
    )
    _index(
        "reservations_active_by_deadline",
        "reservations",
        ["sku_id", "expires_at", "reservation_id"],
        where="status = 'active'",
    )
    _index("reservations_by_sku", "reservations", ["sku_id", "reservation_id"])
    op.create_index(
        "reservations_counted_by_owner",
        "reservations",
        ["owner_id", "sku_id"],
        sqlite_where=sa.text("counted = 1"),
        postgresql_where=sa.text("counted"),
    )


def _create_events_and_transfers() -> None:
    op.create_table(
        "events",
        sa.Column("seq", _Sequence, primary_key=True),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("reservation_id", _Id),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("at", _Number, nullable=False),
        *_columns(_Number, "quantity", "expires_at", nullable=True),
        sa.Column("subject", _Id),
    )
    _index("events_by_reservation", "events", ["reservation_id"])
    op.create_table(
        "idempotency",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("owner_id", _Id, primary_key=True),
        sa.Column("key", _Id, primary_key=True),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("reservation_id", _Id, nullable=False),
        *_columns(_Number, "quantity", "created_at", "expires_at"),
        sqlite_with_rowid=False,
    )
    _index("idempotency_by_age", "idempotency", ["created_at"])
    op.create_table(
        "claims",
        sa.Column("reservation_id", _Id, primary_key=True),
        *_columns(_Id, "sku_id", "owner_id"),
        *_columns(_Number, "quantity", "created_at", "expires_at", "claimed_at"),
        sa.CheckConstraint("quantity > 0", name="claimed_quantity_positive"),
    )
    _index("claims_by_sku", "claims", ["sku_id"])
    op.create_table(
        "splits",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("shards", sa.Integer(), nullable=False),
        sa.Column("total", _Number, nullable=False),
        sa.CheckConstraint("shards > 0 AND total >= 0", name="split_possible"),
    )
    op.create_table(
        "transfers",
        sa.Column("donor", _Id, primary_key=True),
        sa.Column("receiver", _Id, primary_key=True),
        sa.Column("number", _Number, primary_key=True),
        *_columns(_Number, "units", "given_at"),
        sa.Column("taken_at", _Number),
        sa.CheckConstraint("units > 0", name="transferred_units_positive"),
    )
    _index("transfers_by_receiver", "transfers", ["receiver", "donor", "number"])
    _index("transfers_on_their_way", "transfers", ["given_at"], where="taken_at IS NULL")
    op.create_table(
        "pool_counts",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("number", _Number, nullable=False),
    )


def _create_sales_and_orders() -> None:
    op.create_table(
        "sales",
        sa.Column("sale_id", _Id, primary_key=True),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        *_columns(sa.String(), "description", "image_url", nullable=True),
        sa.Column("price_amount", _Number, nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("starts_at", _Number, nullable=False),
        *_columns(_Number, "ends_at", "per_buyer_limit", nullable=True),
        *_columns(_Number, "hold_seconds", "max_hold_seconds"),
        *_columns(_Number, "hold_budget", "required_tier", nullable=True),
        *_columns(sa.String(), "checkout", "payment"),
        *_columns(_Number, "loaded_units", default="0"),
        sa.Column("oversell_policy", sa.String(), nullable=False),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("proof_of_work", sa.Text()),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("problem", sa.String()),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        *_columns(_Number, "created_at", "updated_at"),
        *_columns(_Number, "opened_at", "closed_at", "deliverable_units", nullable=True),
        sa.CheckConstraint("price_amount >= 0", name="price_not_negative"),
        sa.CheckConstraint("state IN ('loading', 'ready', 'closed')", name="sale_state_known"),
    )
    _index("sales_one_per_sku", "sales", ["sku_id"], unique=True, where="state <> 'closed'")
    op.create_table(
        "orders",
        sa.Column("order_id", _Id, primary_key=True),
        sa.Column("reservation_id", _Id, nullable=False, unique=True),
        *_columns(_Id, "sale_id", "sku_id", "buyer_id"),
        *_columns(_Number, "quantity", "amount"),
        *_columns(sa.String(), "currency", "payment", "status"),
        *_columns(_Number, "refunded_amount", default="0"),
        sa.Column("created_at", _Number, nullable=False),
        *_columns(_Number, "units_to_source", default="0"),
        sa.CheckConstraint("status IN ('confirmed', 'refunded', 'cancelled')", name="order_status_known"),
        sa.CheckConstraint("refunded_amount >= 0 AND refunded_amount <= amount", name="refunded_within_amount"),
    )
    _index("orders_by_buyer", "orders", ["buyer_id", "order_id"])
    _index("orders_by_sale", "orders", ["sale_id", "order_id"])
    _index("orders_to_source", "orders", ["sale_id"], where="units_to_source > 0")
    op.create_table(
        "restocks",
        sa.Column("sale_id", _Id, primary_key=True),
        sa.Column("key", _Id, primary_key=True),
        sa.Column("units", _Number, nullable=False),
        sa.Column("is_done", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("created_at", _Number, nullable=False),
    )


def _create_settlements_and_payments() -> None:
    op.create_table(
        "settlements",
        sa.Column("reservation_id", _Id, primary_key=True),
        *_columns(_Id, "sale_id", "sku_id", "buyer_id"),
        sa.Column("quantity", _Number, nullable=False),
        sa.Column("state", sa.String(), nullable=False, server_default="waiting"),
        sa.Column("ending", sa.String()),
        sa.Column("successor_id", _Id),
        *_columns(_Number, "attempts", default="0"),
        sa.Column("due_at", _Number, nullable=False),
        *_columns(_Number, "leased_until", "fence", default="0"),
        sa.Column("reason", sa.String()),
        sa.Column("history", sa.Text()),
        sa.Column("created_at", _Number, nullable=False),
        sa.CheckConstraint(
            "state IN ('waiting', 'notifying', 'done', 'parked', 'dropped')", name="settlement_state_known"
        ),
    )
    _index("settlements_by_successor", "settlements", ["successor_id"], where="successor_id IS NOT NULL")
    _index("settlements_due", "settlements", ["sku_id", "due_at"], where="state IN ('waiting', 'notifying')")
    _index("settlements_parked", "settlements", ["created_at"], where="state = 'parked'")
    op.create_table(
        "payments",
        sa.Column("payment_key", _Id, primary_key=True),
        sa.Column("reservation_id", _Id, nullable=False, unique=True),
        *_columns(_Id, "sale_id", "buyer_id"),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("method", sa.String()),
        sa.Column("amount", _Number, nullable=False),
        *_columns(sa.String(), "currency", "state"),
        *_columns(sa.String(), "reference", "reason", nullable=True),
        *_columns(_Number, "created_at", "updated_at"),
        sa.CheckConstraint(
            "state IN ('new', 'attempted', 'authorised', 'claimed', 'captured', 'declined', 'voided')",
            name="payment_state_known",
        ),
    )
    _index("payments_captured", "payments", ["updated_at"], where="state = 'captured'")
    _index("payments_set_aside", "payments", ["updated_at"], where="state IN ('attempted', 'authorised', 'claimed')")


def _create_refunds_and_wallet() -> None:
    op.create_table(
        "refunds",
        sa.Column("refund_id", _Id, primary_key=True),
        sa.Column("payment_key", _Id, nullable=False),
        *_columns(_Id, "order_id", "key", nullable=True),
        sa.Column("asked_amount", _Number),
        sa.Column("sku_id", _Id, nullable=False),
        sa.Column("amount", _Number, nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        *_columns(_Number, "restock_units", default="0"),
        sa.Column("cause", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False, server_default="waiting"),
        *_columns(_Number, "attempts", default="0"),
        sa.Column("due_at", _Number, nullable=False),
        *_columns(_Number, "leased_until", "fence", default="0"),
        sa.Column("reason", sa.String()),
        sa.Column("history", sa.Text()),
        sa.Column("created_at", _Number, nullable=False),
        sa.Column("done_at", _Number),
        sa.CheckConstraint("amount >= 0", name="refund_not_negative"),
        sa.CheckConstraint("state IN ('waiting', 'notifying', 'done', 'parked', 'dropped')", name="refund_state_known"),
    )
    _index("refunds_by_key", "refunds", ["order_id", "key"], unique=True)
    _index("refunds_by_payment", "refunds", ["payment_key"])
    _index("refunds_due", "refunds", ["due_at"], where="state IN ('waiting', 'notifying')")
    _index("refunds_parked", "refunds", ["created_at"], where="state = 'parked'")
    op.create_table(
        "wallet_accounts",
        sa.Column("buyer_id", _Id, primary_key=True),
        sa.Column("currency", sa.String(), primary_key=True),
        *_columns(_Number, "balance", "updated_at"),
        sa.CheckConstraint("balance >= 0", name="balance_not_negative"),
    )
    op.create_table(
        "wallet_entries",
        sa.Column("transfer_id", _Id, primary_key=True),
        sa.Column("account", _Id, primary_key=True),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("amount", _Number, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reservation_id", _Id),
        sa.Column("balance", _Number),
        sa.Column("at", _Number, nullable=False),
    )
    _index("wallet_entries_by_account", "wallet_entries", ["account", "at"])


def _create_room() -> None:
    op.create_table(
        "rooms",
        sa.Column("sale_id", _Id, primary_key=True),
        *_columns(_Number, "joined", "serving", default="0"),
        sa.Column("rate_per_second", _Number),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        *_columns(_Number, "admit", default="0"),
        *_columns(sa.String(), "seed", "seed_hash"),
        sa.Column("entrants", _Number),
        sa.Column("digest", sa.String()),
        sa.Column("opened_at", _Number),
        *_columns(
            _Number,
            "passes_given",
            "passes_used",
            "stale_used",
            "units_taken",
            "passes_lapsed",
            "passes_stale",
            "calls_lapsed",
            "called_to",
            "answered",
            "counted_at",
            default="0",
        ),
        sa.Column("advancer_state", sa.Text()),
        sa.Column("advancer", sa.String()),
        *_columns(_Number, "leased_until", "fence", default="0"),
        sa.Column("created_at", _Number, nullable=False),
        sa.CheckConstraint("serving >= 0 AND serving <= joined", name="serving_within_joined"),
    )
    op.create_table(
        "gate_slowness",
        sa.Column("sku_id", _Id, primary_key=True),
        sa.Column("process", sa.String(), primary_key=True),
        sa.Column("slowness_ms", sa.Integer(), nullable=False),
        sa.Column("at", _Number, nullable=False),
    )
    op.create_table(
        "spent_challenges",
        sa.Column("challenge_id", _Id, primary_key=True),
        *_columns(_Id, "sale_id", "buyer_id"),
        *_columns(_Number, "claim", "expires_at"),
    )
    _index("spent_challenges_by_expiry", "spent_challenges", ["expires_at"])


def _create_places() -> None:
    op.create_table(
        "places",
        sa.Column("sale_id", _Id, primary_key=True),
        sa.Column("arrival", _Number, primary_key=True),
        sa.Column("buyer_id", _Id, nullable=False),
        sa.Column("ticket_id", sa.String(), nullable=False),
        sa.Column("joined_at", _Number, nullable=False),
        *_columns(_Number, "place", "stale_at", "pass_until", "used_at", "ended_at", nullable=True),
        sqlite_with_rowid=False,
    )
    _index("places_by_pass_until", "places", ["sale_id", "pass_until"], where="place IS NOT NULL")
    _index("places_by_place", "places", ["sale_id", "place"], where="place IS NOT NULL")
    _index("places_by_stale_at", "places", ["sale_id", "stale_at"], where="place IS NOT NULL")
    _index("places_one_per_buyer", "places", ["sale_id", "buyer_id"], unique=True, where="ended_at IS NULL")


def _create_webhooks_and_access() -> None:
    op.create_table(
        "webhooks",
        sa.Column("webhook_id", _Id, primary_key=True),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("previous_secret", sa.String()),
        sa.Column("previous_until", _Number),
        sa.Column("description", sa.String()),
        *_columns(_Number, "relayed_seq", "created_at"),
        sa.Column("disabled_at", _Number),
    )
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", _Id, primary_key=True),
        sa.Column("webhook_id", _Id, nullable=False),
        sa.Column("seq", _Number, nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("subject", _Id, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False, server_default="waiting"),
        *_columns(_Number, "attempts", default="0"),
        sa.Column("due_at", _Number, nullable=False),
        *_columns(_Number, "leased_until", "fence", default="0"),
        sa.Column("reason", sa.String()),
        sa.Column("history", sa.Text()),
        sa.Column("created_at", _Number, nullable=False),
        sa.Column("done_at", _Number),
        sa.CheckConstraint("state IN ('waiting', 'done', 'parked', 'dropped')", name="delivery_state_known"),
    )
    _index("deliveries_by_webhook", "deliveries", ["webhook_id", "seq"])
    _index("deliveries_due", "deliveries", ["webhook_id", "due_at", "seq"], where="state = 'waiting'")
    _index("deliveries_ended", "deliveries", ["done_at"], where="done_at IS NOT NULL")
    _index("deliveries_parked", "deliveries", ["created_at"], where="state = 'parked'")
    _index("deliveries_waiting", "deliveries", ["webhook_id", "subject", "seq"], where="state = 'waiting'")
    op.create_table(
        "service_keys",
        sa.Column("key_id", _Id, primary_key=True),
        *_columns(sa.String(), "name", "secret_hash", "scopes"),
        sa.Column("created_at", _Number, nullable=False),
        sa.Column("revoked_at", _Number),
    )
    op.create_table(
        "console_sessions",
        sa.Column("session_id", _Id, primary_key=True),
        sa.Column("secret_hash", sa.String(), nullable=False),
        sa.Column("key_id", _Id),
        sa.Column("key_hash", sa.String()),
        *_columns(_Number, "created_at", "expires_at"),
    )
    _index("console_sessions_by_expiry", "console_sessions", ["expires_at"])
