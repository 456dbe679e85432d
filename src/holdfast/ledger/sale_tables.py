"""Sales and what came of them: orders, and the money behind each.

Lock order goes on from `tables.py`: the pool's row first, then settlements, payments, refunds and orders of that pool
(each row is worked on by one worker, under its lease), then wallet accounts, by id. `fence` counts how often a row was
leased: a worker that slept past its lease finds another number, and writes nothing.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    String,
    Table,
    Text,
    false,
    literal_column,
    text,
)

from holdfast.ledger.tables import Id, Millis, metadata

sales = Table(
    "sales",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("sku_id", Id, nullable=False),
    Column("name", String, nullable=False),
    Column("description", String),
    Column("image_url", String),
    Column("price_amount", BigInteger, nullable=False),
    Column("currency", String, nullable=False),
    Column("starts_at", Millis, nullable=False),
    Column("ends_at", Millis),
    Column("per_buyer_limit", BigInteger),
    Column("hold_seconds", BigInteger, nullable=False),
    Column("max_hold_seconds", BigInteger, nullable=False),
    Column("hold_budget", BigInteger),
    Column("required_tier", BigInteger),
    Column("checkout", String, nullable=False),
    Column("payment", String, nullable=False),
    # What its pool is to have. Kept, because whoever loads it may die before the pool has heard of it.
    Column("loaded_units", BigInteger, nullable=False, server_default="0"),
    Column("oversell_policy", String, nullable=False),
    # As JSON: the room and the price of entry are read whole, and never searched.
    Column("room", Text, nullable=False),
    Column("proof_of_work", Text),
    # loading: its pool is not yet checked, and does not sell. ready: it sells in its window. closed: for good.
    Column("state", String, nullable=False),
    Column("problem", String),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("created_at", Millis, nullable=False),
    Column("updated_at", Millis, nullable=False),
    # When the world was told that it has opened, and that it has ended.
    Column("opened_at", Millis),
    Column("closed_at", Millis),
    # How many units of its orders can be delivered, if an operator said that it is fewer than were sold.
    Column("deliverable_units", BigInteger),
    CheckConstraint("price_amount >= 0", name="price_not_negative"),
    CheckConstraint("state IN ('loading', 'ready', 'closed')", name="sale_state_known"),
)
# A pool has one set of rules, so it is in one sale at a time.
one_sale_per_sku = Index(
    "sales_one_per_sku",
    sales.c.sku_id,
    unique=True,
    sqlite_where=text("state <> 'closed'"),
    postgresql_where=text("state <> 'closed'"),
)

orders = Table(
    "orders",
    metadata,
    Column("order_id", Id, primary_key=True),
    Column("reservation_id", Id, nullable=False, unique=True),
    Column("sale_id", Id, nullable=False),
    Column("sku_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("currency", String, nullable=False),
    # Who moved the money: the provider of the sale, or `external` where the caller did and then confirmed.
    Column("payment", String, nullable=False),
    Column("status", String, nullable=False),
    Column("refunded_amount", BigInteger, nullable=False, server_default="0"),
    Column("created_at", Millis, nullable=False),
    # Units of it that were sold and are not there: somebody has to find them.
    Column("units_to_source", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("refunded_amount >= 0 AND refunded_amount <= amount", name="refunded_within_amount"),
    CheckConstraint("status IN ('confirmed', 'refunded', 'cancelled')", name="order_status_known"),
    Index("orders_by_buyer", "buyer_id", "order_id"),
    Index("orders_by_sale", "sale_id", "order_id"),
)
# Written out, as below for settlements.
is_to_source = orders.c.units_to_source > literal_column("0")
orders_to_source = Index(
    "orders_to_source",
    orders.c.sale_id,
    sqlite_where=text("units_to_source > 0"),
    postgresql_where=text("units_to_source > 0"),
)

# Changes of stock that were asked for under a key, so that each happens once.
restocks = Table(
    "restocks",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("key", Id, primary_key=True),
    Column("units", BigInteger, nullable=False),
    Column("is_done", Boolean, nullable=False, server_default=false()),
    Column("created_at", Millis, nullable=False),
)

# Work: one row for each reservation that is to be paid for, written with its move to settling.
settlements = Table(
    "settlements",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    Column("sale_id", Id, nullable=False),
    Column("sku_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    # waiting: money is to move. telling: that is decided (`ending`), the gate is to be told. Then done, or parked.
    Column("state", String, nullable=False, server_default="waiting"),
    Column("ending", String),
    # The reservation that was asked for in its place, when its money came too late: the payment is found under that.
    Column("successor_id", Id),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("due_at", Millis, nullable=False),
    Column("leased_until", Millis, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("reason", String),
    # As JSON: what was tried, when, and what came of it.
    Column("history", Text),
    Column("created_at", Millis, nullable=False),
    CheckConstraint("state IN ('waiting', 'telling', 'done', 'parked', 'dropped')", name="settlement_state_known"),
)
# Written out, not as parameters: only then do the engines see that the partial indexes serve the question.
_OPEN: list[ColumnElement[str]] = [literal_column("'waiting'"), literal_column("'telling'")]
is_open_settlement = settlements.c.state.in_(_OPEN)
settlements_due = Index(
    "settlements_due",
    settlements.c.sku_id,
    settlements.c.due_at,
    sqlite_where=text("state IN ('waiting', 'telling')"),
    postgresql_where=text("state IN ('waiting', 'telling')"),
)
settlements_parked = Index(
    "settlements_parked",
    settlements.c.created_at,
    sqlite_where=text("state = 'parked'"),
    postgresql_where=text("state = 'parked'"),
)
settlements_by_successor = Index(
    "settlements_by_successor",
    settlements.c.successor_id,
    sqlite_where=text("successor_id IS NOT NULL"),
    postgresql_where=text("successor_id IS NOT NULL"),
)

# The money of one reservation, at most one payment each.
payments = Table(
    "payments",
    metadata,
    Column("payment_key", Id, primary_key=True),
    Column("reservation_id", Id, nullable=False, unique=True),
    Column("sale_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    Column("provider", String, nullable=False),
    Column("method", String),
    Column("amount", BigInteger, nullable=False),
    Column("currency", String, nullable=False),
    # new: a method is noted, nothing was asked. attempted: asked, and no answer known. claimed: authorised, and the
    # ledger has let the units go for it.
    Column("state", String, nullable=False),
    Column("reference", String),
    Column("reason", String),
    Column("created_at", Millis, nullable=False),
    Column("updated_at", Millis, nullable=False),
    CheckConstraint(
        "state IN ('new', 'attempted', 'authorised', 'claimed', 'captured', 'declined', 'voided')",
        name="payment_state_known",
    ),
)
# Asked, and not decided: only while somebody works on it.
is_set_aside = payments.c.state.in_([literal_column(f"'{state}'") for state in ("attempted", "authorised", "claimed")])
payments_set_aside = Index(
    "payments_set_aside",
    payments.c.updated_at,
    sqlite_where=text("state IN ('attempted', 'authorised', 'claimed')"),
    postgresql_where=text("state IN ('attempted', 'authorised', 'claimed')"),
)
payments_captured = Index(
    "payments_captured",
    payments.c.updated_at,
    sqlite_where=text("state = 'captured'"),
    postgresql_where=text("state = 'captured'"),
)

refunds = Table(
    "refunds",
    metadata,
    Column("refund_id", Id, primary_key=True),
    Column("payment_key", Id, nullable=False),
    # None for a charge that never became an order.
    Column("order_id", Id),
    # The caller's idempotency key, and the amount that was asked for with it; None for all that was left.
    Column("key", Id),
    Column("asked_amount", BigInteger),
    Column("sku_id", Id, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("currency", String, nullable=False),
    Column("restock_units", BigInteger, nullable=False, server_default="0"),
    Column("cause", String, nullable=False),
    Column("state", String, nullable=False, server_default="waiting"),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("due_at", Millis, nullable=False),
    Column("leased_until", Millis, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("reason", String),
    Column("history", Text),
    Column("created_at", Millis, nullable=False),
    Column("done_at", Millis),
    # Nothing goes back for what was free, but its units may.
    CheckConstraint("amount >= 0", name="refund_not_negative"),
    CheckConstraint("state IN ('waiting', 'telling', 'done', 'parked', 'dropped')", name="refund_state_known"),
    Index("refunds_by_payment", "payment_key"),
    Index("refunds_by_key", "order_id", "key", unique=True),
)
is_open_refund = refunds.c.state.in_(_OPEN)
refunds_due = Index(
    "refunds_due",
    refunds.c.due_at,
    sqlite_where=text("state IN ('waiting', 'telling')"),
    postgresql_where=text("state IN ('waiting', 'telling')"),
)
refunds_parked = Index(
    "refunds_parked",
    refunds.c.created_at,
    sqlite_where=text("state = 'parked'"),
    postgresql_where=text("state = 'parked'"),
)

wallet_accounts = Table(
    "wallet_accounts",
    metadata,
    Column("buyer_id", Id, primary_key=True),
    Column("currency", String, primary_key=True),
    Column("balance", BigInteger, nullable=False),
    Column("updated_at", Millis, nullable=False),
    CheckConstraint("balance >= 0", name="balance_not_negative"),
)

# Double entry: the amounts of one transfer add up to nothing. Accounts are `buyer:<id>` and those of the house.
wallet_entries = Table(
    "wallet_entries",
    metadata,
    Column("transfer_id", Id, primary_key=True),
    Column("account", Id, primary_key=True),
    Column("currency", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("reservation_id", Id),
    # What a buyer had after it. The house's accounts have no balance of their own: everybody would wait for its row.
    Column("balance", BigInteger),
    Column("at", Millis, nullable=False),
    Index("wallet_entries_by_account", "account", "at"),
)
