"""Service keys and console sessions."""

from sqlalchemy import BigInteger, Column, Index, String, Table

from holdfast.ledger.tables.columns import Id, Millis, metadata

service_keys = Table(
    "service_keys",
    metadata,
    Column("key_id", Id, primary_key=True),
    Column("name", String, nullable=False),
    Column("secret_hash", String, nullable=False),
    Column("scopes", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("revoked_at", Millis),
    # The key that made it and takes it along when it is revoked; None for the admin key and the command line.
    Column("created_by", Id),
    # 1: made when `operate` included what `money` and `admin` are for now.
    Column("scopes_version", BigInteger, nullable=False, server_default="1"),
)

console_sessions = Table(
    "console_sessions",
    metadata,
    Column("session_id", Id, primary_key=True),
    Column("secret_hash", String, nullable=False),
    # Of the key it was started with; for the admin key, which is in no table, a hash instead.
    Column("key_id", Id),
    Column("key_hash", String),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    Index("console_sessions_by_expiry", "expires_at"),
)
