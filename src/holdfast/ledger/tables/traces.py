"""Traces that continue after the response to their request."""

from sqlalchemy import Column, Index, String, Table

from holdfast.ledger.tables.columns import Id, Millis, metadata

# Only for traced requests, so most reservations have none. Refused reservations have one too, which leads nowhere.
traces = Table(
    "traces",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    # In W3C format: that of the last traced request about the reservation.
    Column("traceparent", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Index("traces_by_age", "created_at"),
    sqlite_with_rowid=False,
)
