"""What is published other than webhooks: the position of each stream, and the last published counts of pools."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, String, Table, Text

from holdfast.ledger.tables.columns import Id, Millis, metadata

# One row for each stream.
streams = Table(
    "streams",
    metadata,
    Column("name", Id, primary_key=True),
    # The last event, and the last row of `pool_updates`, that were published.
    Column("position", BigInteger, nullable=False, server_default="0"),
    Column("update_number", BigInteger, nullable=False, server_default="0"),
    # The publishing process, until when, and how often that has changed hands.
    Column("holder", Id),
    Column("leased_until", Millis, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("updated_at", Millis, nullable=False, server_default="0"),
)

# One row for each SKU: the counts in the last `pool.updated`. A later one replaces it, published or not.
pool_updates = Table(
    "pool_updates",
    metadata,
    Column("sku_id", Id, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("sold", BigInteger, nullable=False),
    Column("sale_id", Id),
    Column("at", Millis, nullable=False),
    Index("pool_updates_by_number", "number", unique=True),
)

# Parked items that were published to the dead-letter topic.
dead_letters = Table(
    "dead_letters",
    metadata,
    Column("kind", Id, primary_key=True),
    Column("item_id", Id, primary_key=True),
    Column("told_at", Millis, nullable=False),
)

# Messages that no consumer can read, for an operator.
parked_messages = Table(
    "parked_messages",
    metadata,
    # topic/partition/offset
    Column("message_id", Id, primary_key=True),
    Column("state", String, nullable=False, server_default="parked"),
    Column("reason", String, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="1"),
    Column("created_at", Millis, nullable=False),
    Column("history", Text),
    # As text, cut off.
    Column("body", Text, nullable=False),
    CheckConstraint("state IN ('parked', 'dropped')", name="parked_message_state_known"),
)
