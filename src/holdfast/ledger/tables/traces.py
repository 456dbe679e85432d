"""Traces that go on after their request was answered."""

from sqlalchemy import Column, Index, String, Table

from holdfast.ledger.tables.columns import Id, Millis, metadata

# Only of requests that are traced, so most reservations have none. Refused ones have one too, which leads nowhere.
traces = Table(
    "traces",
    metadata,
    Column("reservation_id", Id, primary_key=True),
    # As W3C has it: of the last request about the reservation that was traced.
    Column("traceparent", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Index("traces_by_age", "created_at"),
    sqlite_with_rowid=False,
)
