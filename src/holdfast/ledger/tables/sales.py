"""Sales, their orders and restocks.

Lock order continues from `tables/stock.py`: the pool's row first, then settlements, payments, refunds and orders of
that pool (each row is worked on by one worker, under its lease), then wallet accounts, by id. `fence` counts how often
a row was leased: a worker that overran its lease finds another number, and writes nothing.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    String,
    Table,
    Text,
    false,
    literal_column,
    text,
    true,
)

from holdfast.ledger.tables.columns import Id, Millis, metadata

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
    # The units its pool should have. Stored here, because a process may die before the pool gets them.
    Column("loaded_units", BigInteger, nullable=False, server_default="0"),
    Column("oversell_policy", String, nullable=False),
    # As JSON: room and proof of work are read as a whole and never searched.
    Column("room", Text, nullable=False),
    Column("proof_of_work", Text),
    # loading: its pool is not yet checked, and does not sell. ready: it sells in its window. closed: for good.
    Column("state", String, nullable=False),
    Column("problem", String),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("created_at", Millis, nullable=False),
    Column("updated_at", Millis, nullable=False),
    # When the events of its opening and its end were recorded.
    Column("opened_at", Millis),
    Column("closed_at", Millis),
    # How many units can be delivered, if an operator declared that fewer exist than were sold.
    Column("deliverable_units", BigInteger),
    Column("units_per_address", BigInteger),
    Column("checkout_url", String),
    # As JSON, like the room.
    Column("brand", Text),
    Column("locale", String),
    # How often a buyer may try to pay for a reservation, and what happens if all payments are declined.
    Column("payment_attempts_max", BigInteger, nullable=False, server_default="3"),
    Column("after_attempts", String, nullable=False, server_default="cancel"),
    # An oversell above this share of what was sold needs an operator's decision.
    Column("review_above_percent", BigInteger, nullable=False, server_default="5"),
    # Spare units outside of the pool, for an oversell.
    Column("buffer_units", BigInteger, nullable=False, server_default="0"),
    # How often a buyer may try to buy.
    Column("purchase_attempts_max", BigInteger),
    Column("drop_id", Id),
    # Whether its buyers get messages, if they asked for them.
    Column("notify", Boolean, nullable=False, server_default=true()),
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

sales_in_drops = Index(
    "sales_by_drop",
    sales.c.drop_id,
    sqlite_where=text("drop_id IS NOT NULL"),
    postgresql_where=text("drop_id IS NOT NULL"),
)

# Several sales with one waiting line, one pass, and a limit across them.
drops = Table(
    "drops",
    metadata,
    Column("drop_id", Id, primary_key=True),
    Column("name", String, nullable=False),
    Column("starts_at", Millis, nullable=False),
    Column("per_buyer_limit", BigInteger),
    # As JSON, like that of a sale.
    Column("room", Text, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("updated_at", Millis, nullable=False),
    # When the limit was last lowered: earlier grants may exceed it.
    Column("limit_lowered_at", Millis),
)

# What each purchase counts towards its buyer's limit in a drop.
drop_units = Table(
    "drop_units",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    Column("drop_id", Id, nullable=False),
    Column("sale_id", Id, nullable=False),
    Column("sku_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    Column("idempotency_key", Id),
    Column("units", BigInteger, nullable=False),
    Column("created_at", Millis, nullable=False),
    Index("drop_units_by_buyer", "drop_id", "buyer_id"),
    Index("drop_units_by_sale", "sale_id"),
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
    # How it was paid: by the sale's provider, or `external` where the caller took the money and then confirmed.
    Column("payment", String, nullable=False),
    Column("status", String, nullable=False),
    Column("refunded_amount", BigInteger, nullable=False, server_default="0"),
    Column("created_at", Millis, nullable=False),
    # Units of the order that were sold but do not exist; an operator has to find them.
    Column("units_to_source", BigInteger, nullable=False, server_default="0"),
    Column("updated_at", Millis, nullable=False),
    # When it was paid. None: its payment has only begun, or failed.
    Column("confirmed_at", Millis),
    Column("tracking", String),
    # As JSON: the quote it was bought at.
    Column("quote", Text),
    # `order_number_of` the reservation, for searching. None in rows that an earlier release wrote beside this one.
    Column("number", Id),
    # The idempotency key that it was fulfilled with.
    Column("fulfil_key", String),
    CheckConstraint("refunded_amount >= 0 AND refunded_amount <= amount", name="refunded_within_amount"),
    CheckConstraint(
        "status IN ('pending', 'confirmed', 'fulfilled', 'refunded', 'cancelled')", name="order_status_known"
    ),
    Index("orders_by_buyer", "buyer_id", "order_id"),
    Index("orders_by_sale", "sale_id", "order_id"),
    Index("orders_by_number", "number", unique=True),
)
# Orders that were paid. All others are unpaid, and no money belongs to them.
is_sold = orders.c.confirmed_at.is_not(None)
# A literal, as for settlements.
is_to_source = orders.c.units_to_source > literal_column("0")
orders_to_source = Index(
    "orders_to_source",
    orders.c.sale_id,
    sqlite_where=text("units_to_source > 0"),
    postgresql_where=text("units_to_source > 0"),
)

# What purchases will cost, until they expire.
quotes = Table(
    "quotes",
    metadata,
    Column("quote_id", Id, primary_key=True),
    Column("sale_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    Column("quantity", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("currency", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    Column("reservation_id", Id, nullable=False),
    Column("base_amount", BigInteger, nullable=False),
    Column("base_currency", String, nullable=False),
    # A decimal number.
    Column("rate", String),
    # The idempotency key of the purchase that uses it.
    Column("key", Id),
    Index("quotes_by_expiry", "expires_at"),
)

# The cost of a reservation that was made with a quote; its replacement, if any, costs the same.
quoted_prices = Table(
    "quoted_prices",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    Column("sale_id", Id, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("currency", String, nullable=False),
    # As JSON, like that of the order.
    Column("quote", Text, nullable=False),
    Index("quoted_prices_by_sale", "sale_id"),
)

# What each purchase counts towards its address's limit, in sales that have one.
address_units = Table(
    "address_units",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    Column("sale_id", Id, nullable=False),
    Column("address", String, nullable=False),
    Column("owner_id", Id, nullable=False),
    Column("idempotency_key", Id),
    Column("units", BigInteger, nullable=False),
    Column("created_at", Millis, nullable=False),
    Index("address_units_by_address", "sale_id", "address"),
)

# The idempotency keys that each buyer tried to buy with, in sales that limit how often.
purchase_attempts = Table(
    "purchase_attempts",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("buyer_id", Id, primary_key=True),
    Column("key", Id, primary_key=True),
    Column("created_at", Millis, nullable=False),
    sqlite_with_rowid=False,
)

# Changes of stock requested under an idempotency key, so that each happens once.
restocks = Table(
    "restocks",
    metadata,
    Column("sale_id", Id, primary_key=True),
    Column("key", Id, primary_key=True),
    Column("units", BigInteger, nullable=False),
    Column("is_done", Boolean, nullable=False, server_default=false()),
    Column("created_at", Millis, nullable=False),
)
