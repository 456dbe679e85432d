"""Settlements, payments, refunds and wallets: the money behind each order.

The lock order is stated in `sales.py`.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    String,
    Table,
    Text,
    exists,
    literal_column,
    text,
)

from holdfast.ledger.tables.columns import Id, Millis, metadata

settlements = Table(
    "settlements",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    Column("sale_id", Id, nullable=False),
    Column("sku_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    # waiting: money has to move. notifying: the `ending` is decided, the gate has to be notified. Then done or parked.
    Column("state", String, nullable=False, server_default="waiting"),
    Column("ending", String),
    # The replacement that was requested because the money came too late: the payment moves to it.
    Column("successor_id", Id),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("due_at", Millis, nullable=False),
    Column("leased_until", Millis, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("reason", String),
    # As JSON: what failed, when, and why.
    Column("history", Text),
    Column("created_at", Millis, nullable=False),
    CheckConstraint("state IN ('waiting', 'notifying', 'done', 'parked', 'dropped')", name="settlement_state_known"),
)
# Literals, not parameters, so that the engines use the partial indexes.
_OPEN: list[ColumnElement[str]] = [literal_column("'waiting'"), literal_column("'notifying'")]
is_open_settlement = settlements.c.state.in_(_OPEN)
settlements_due = Index(
    "settlements_due",
    settlements.c.sku_id,
    settlements.c.due_at,
    sqlite_where=text("state IN ('waiting', 'notifying')"),
    postgresql_where=text("state IN ('waiting', 'notifying')"),
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

# The payments for reservations. Each payment attempt is a row with its own key; the next begins only after the previous
# one was declined.
payments = Table(
    "payments",
    metadata,
    Column("payment_key", Id, primary_key=True),
    Column("reservation_id", Id, nullable=False),
    Column("sale_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    Column("provider", String, nullable=False),
    Column("method", String),
    Column("amount", BigInteger, nullable=False),
    Column("currency", String, nullable=False),
    # new: a method is noted, and no request was sent. attempted: requested, with no known response. claimed:
    # authorised, and the ledger has released the units for it.
    Column("state", String, nullable=False),
    Column("reference", String),
    Column("reason", String),
    Column("created_at", Millis, nullable=False),
    Column("updated_at", Millis, nullable=False),
    # The provider's customer whose card `method` is. The buyer's token says so, never the request.
    Column("customer", String),
    Column("attempt", BigInteger, nullable=False, server_default="1"),
    Index("payments_by_reservation", "reservation_id"),
    CheckConstraint(
        "state IN ('new', 'attempted', 'authorised', 'claimed', 'captured', 'declined', 'voided')",
        name="payment_state_known",
    ),
)
# Requested and not decided yet.
is_undecided = payments.c.state.in_([literal_column(f"'{state}'") for state in ("attempted", "authorised", "claimed")])
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
    # The caller's idempotency key, and the amount requested with it; None for everything that was left.
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
    # Why it is parked.
    Column("reason", String),
    Column("history", Text),
    Column("created_at", Millis, nullable=False),
    Column("done_at", Millis),
    # The reason, in the words of the requester.
    Column("note", String),
    # A free order returns no money, but it may return units.
    CheckConstraint("amount >= 0", name="refund_not_negative"),
    CheckConstraint("state IN ('waiting', 'notifying', 'done', 'parked', 'dropped')", name="refund_state_known"),
    Index("refunds_by_payment", "payment_key"),
    Index("refunds_by_key", "order_id", "key", unique=True),
)
is_open_refund = refunds.c.state.in_(_OPEN)
# Whether a payment was or will be refunded without having paid for an order.
is_returned = (
    exists()
    .where(refunds.c.payment_key == payments.c.payment_key, refunds.c.order_id.is_(None), refunds.c.state != "dropped")
    .correlate(payments)
)
refunds_due = Index(
    "refunds_due",
    refunds.c.due_at,
    sqlite_where=text("state IN ('waiting', 'notifying')"),
    postgresql_where=text("state IN ('waiting', 'notifying')"),
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

# Double entry: the amounts of one transfer sum to zero. Accounts are `buyer:<id>` and `house:…`.
wallet_entries = Table(
    "wallet_entries",
    metadata,
    Column("transfer_id", Id, primary_key=True),
    Column("account", Id, primary_key=True),
    Column("currency", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("reservation_id", Id),
    # The buyer's balance after it. Our own accounts store none, because every purchase would wait for that row.
    Column("balance", BigInteger),
    Column("at", Millis, nullable=False),
    Index("wallet_entries_by_account", "account", "at"),
)
