"""Refusals of all servers in one place, so that a single search finds them.

Each server keeps its refusals in files (audit/segments.py). Each second, it also writes the new ones as one row with
the bucket `RECENT`. When a segment is finished, all of it is written again in `BUCKETS` rows, by the owner's hash, and
these replace the others. So a search reads one row of each finished segment.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table

from holdfast.ledger.tables.columns import Millis, metadata

RECENT = -1
BUCKETS = 64

refusal_batches = Table(
    "refusal_batches",
    metadata,
    Column("segment", String, primary_key=True),
    Column("bucket", Integer, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("first_at", Millis, nullable=False),
    Column("last_at", Millis, nullable=False),
    # Lines of JSON, compressed.
    Column("lines", LargeBinary, nullable=False),
    Index("refusal_batches_by_bucket", "bucket", "last_at"),
    Index("refusal_batches_by_age", "last_at"),
)
