"""One row per process, written every second. It proves that the store takes writes and that the process lives."""

from sqlalchemy import Column, LargeBinary, String, Table

from holdfast.ledger.tables.columns import Id, Millis, metadata

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("process", Id, primary_key=True),
    Column("at", Millis, nullable=False),
    # The process's background roles, as JSON: null for a working one, or its problem.
    Column("roles", String, nullable=False),
    # After a failed write, as large as a batch of real writes: a nearly full disk still takes a small row.
    Column("padding", LargeBinary),
    # Of the program, which may be older than the tables.
    Column("revision", Id, nullable=False, server_default="0012"),
)
