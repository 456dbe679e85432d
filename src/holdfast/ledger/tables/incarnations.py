"""The incarnations of the ledger: each begins where its history was cut off, and the first when it was created."""

from sqlalchemy import BigInteger, Column, String, Table, Text

from holdfast.ledger.tables.columns import Id, Millis, metadata

incarnations = Table(
    "incarnations",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("incarnation", Id, nullable=False),
    Column("began_at", Millis, nullable=False),
    # Events after this one belong to it.
    Column("after_seq", BigInteger, nullable=False),
    # The highest event that the previous incarnation is known to have had; the events in between were lost.
    Column("lost_seq", BigInteger, nullable=False, server_default="0"),
    # The operator who decided to continue, and what was recovered or given up, as JSON.
    Column("decided_by", String),
    Column("report", Text),
)
