"""Buyers who want messages, and the messages they were sent."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, String, Table, Text, text

from holdfast.ledger.tables.columns import Id, Millis, metadata

# A buyer's subscription. Buyers without a row get no messages.
contacts = Table(
    "contacts",
    metadata,
    Column("buyer_id", Id, primary_key=True),
    Column("email", String),
    # A language tag. None: that of the sale.
    Column("locale", String),
    # When they subscribed to the next sale; None: not subscribed.
    Column("next_since", Millis),
    Column("created_at", Millis, nullable=False),
    Column("updated_at", Millis, nullable=False),
)
contacts_next = Index(
    "contacts_next",
    contacts.c.next_since,
    sqlite_where=text("next_since IS NOT NULL"),
    postgresql_where=text("next_since IS NOT NULL"),
)

# Browsers that get notifications. The contact of the same buyer has the language.
push_devices = Table(
    "push_devices",
    metadata,
    # Derived from the endpoint.
    Column("device_id", Id, primary_key=True),
    Column("buyer_id", Id, nullable=False),
    Column("endpoint", String, nullable=False),
    Column("browser_key", String, nullable=False),
    Column("auth", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Index("push_devices_by_buyer", "buyer_id"),
)

# One row for each message to one address: created once, claimed once, sent once. Also the log.
messages = Table(
    "messages",
    metadata,
    # Derived from its subject and its target, so that it is unique.
    Column("message_id", Id, primary_key=True),
    Column("buyer_id", Id, nullable=False),
    Column("sale_id", Id, nullable=False),
    Column("kind", String, nullable=False),
    Column("channel", String, nullable=False),
    # As JSON: the values for its text.
    Column("facts", Text, nullable=False),
    Column("state", String, nullable=False, server_default="waiting"),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("due_at", Millis, nullable=False),
    # A later message would be misleading.
    Column("expires_at", Millis, nullable=False),
    # While it is being sent. Each claim has its own number.
    Column("leased_until", Millis, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("reason", String),
    Column("created_at", Millis, nullable=False),
    Column("done_at", Millis),
    CheckConstraint(
        "state IN ('waiting', 'sending', 'sent', 'failed', 'unknown', 'dropped')", name="message_state_known"
    ),
    Index("messages_by_buyer", "buyer_id", "created_at"),
    Index("messages_by_age", "created_at", "message_id"),
)
messages_due = Index(
    "messages_due",
    messages.c.channel,
    messages.c.due_at,
    sqlite_where=text("state = 'waiting'"),
    postgresql_where=text("state = 'waiting'"),
)
messages_sending = Index(
    "messages_sending",
    messages.c.leased_until,
    sqlite_where=text("state = 'sending'"),
    postgresql_where=text("state = 'sending'"),
)
