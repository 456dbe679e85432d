"""Periods in which something did not respond, or requests were refused under load, as seen by each process."""

from sqlalchemy import BigInteger, Column, Index, String, Table

from holdfast.ledger.tables.columns import Id, Millis, metadata

outages = Table(
    "outages",
    metadata,
    Column("process", Id, primary_key=True),
    # A readiness check, or what `bootstrap/outage_log.py` combines several into.
    Column("subject", Id, primary_key=True),
    Column("began_at", Millis, primary_key=True),
    Column("last_at", Millis, nullable=False),
    Column("reason", String, nullable=False),
    # Requests that this process refused under load.
    Column("refused", BigInteger, nullable=False, server_default="0"),
    Index("outages_by_age", "last_at"),
)
