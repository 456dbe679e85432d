"""One row for each process, written every second: proof that the store takes writes and that the process lives."""

from sqlalchemy import Column, LargeBinary, String, Table

from holdfast.ledger.tables.columns import Id, Millis, metadata

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("process", Id, primary_key=True),
    Column("at", Millis, nullable=False),
    # The roles of background work it has, as JSON: null for one that works, or what is wrong with it.
    Column("roles", String, nullable=False),
    # As large as a batch of real writes, after one failed: a disk that is nearly full still takes a small row.
    Column("padding", LargeBinary),
    # Of the program, which may be older than that of the tables.
    Column("revision", Id, nullable=False, server_default="0012"),
)
