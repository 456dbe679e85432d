"""Webhooks and their deliveries."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, String, Table, Text, text

from holdfast.ledger.tables.columns import Id, Millis, metadata

webhooks = Table(
    "webhooks",
    metadata,
    Column("webhook_id", Id, primary_key=True),
    Column("url", String, nullable=False),
    # As JSON: the types of events, or patterns such as `order.*`.
    Column("events", Text, nullable=False),
    Column("secret", String, nullable=False),
    # For a while after a rotation the old secret signs too, so that receivers can switch without a gap.
    Column("previous_secret", String),
    Column("previous_until", Millis),
    Column("description", String),
    # The last event that was relayed to it.
    Column("relayed_seq", BigInteger, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("disabled_at", Millis),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("delivery_id", Id, primary_key=True),
    Column("webhook_id", Id, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("type", String, nullable=False),
    # Deliveries of one subject (a reservation, a pool, a sale) go out in order.
    Column("subject", Id, nullable=False),
    Column("body", Text, nullable=False),
    Column("state", String, nullable=False, server_default="waiting"),
    Column("attempts", BigInteger, nullable=False, server_default="0"),
    Column("due_at", Millis, nullable=False),
    Column("leased_until", Millis, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("reason", String),
    Column("history", Text),
    Column("created_at", Millis, nullable=False),
    Column("done_at", Millis),
    CheckConstraint("state IN ('waiting', 'done', 'parked', 'dropped')", name="delivery_state_known"),
    Index("deliveries_by_webhook", "webhook_id", "seq"),
)
# To find the first waiting delivery of each subject.
deliveries_waiting = Index(
    "deliveries_waiting",
    deliveries.c.webhook_id,
    deliveries.c.subject,
    deliveries.c.seq,
    sqlite_where=text("state = 'waiting'"),
    postgresql_where=text("state = 'waiting'"),
)
# To find due deliveries. A failed delivery postpones those behind it, so that they are not found needlessly.
deliveries_due = Index(
    "deliveries_due",
    deliveries.c.webhook_id,
    deliveries.c.due_at,
    deliveries.c.seq,
    sqlite_where=text("state = 'waiting'"),
    postgresql_where=text("state = 'waiting'"),
)
# To list what is parked.
deliveries_parked = Index(
    "deliveries_parked",
    deliveries.c.created_at,
    sqlite_where=text("state = 'parked'"),
    postgresql_where=text("state = 'parked'"),
)
# To prune old ones.
deliveries_ended = Index(
    "deliveries_ended",
    deliveries.c.done_at,
    sqlite_where=text("done_at IS NOT NULL"),
    postgresql_where=text("done_at IS NOT NULL"),
)
