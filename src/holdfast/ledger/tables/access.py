"""Service keys, operators, console sessions, and what operators did."""

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text, UniqueConstraint

from holdfast.ledger.tables.columns import Id, Millis, Sequence, metadata

service_keys = Table(
    "service_keys",
    metadata,
    Column("key_id", Id, primary_key=True),
    Column("name", String, nullable=False),
    Column("secret_hash", String, nullable=False),
    Column("scopes", String, nullable=False),
    Column("created_at", Millis, nullable=False),
    Column("revoked_at", Millis),
    # The key or operator that made it, and takes it along when revoked or disabled; None for the admin key and the
    # command line.
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
    # Of a named operator, who has no key.
    Column("operator_id", Id),
    # How they signed in: `key`, `password`, `invitation` or `oidc`.
    Column("method", String, nullable=False, server_default="key"),
    Index("console_sessions_by_expiry", "expires_at"),
)

operators = Table(
    "operators",
    metadata,
    Column("operator_id", Id, primary_key=True),
    # In lower case.
    Column("email", Id, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("role", String, nullable=False),
    # argon2id, with its parameters and salt.
    Column("password_hash", String),
    Column("invitation_hash", String),
    Column("invitation_expires_at", Millis),
    # Who they are at the OIDC issuer, since they first signed in there.
    Column("issuer", String),
    Column("subject", String),
    Column("created_at", Millis, nullable=False),
    Column("created_by", String),
    Column("joined_at", Millis),
    Column("disabled_at", Millis),
    UniqueConstraint("issuer", "subject", name="operators_by_subject"),
)

# Two rows for an action: one before it is carried out, and one with its outcome. Append-only (`chain.py`).
operator_actions = Table(
    "operator_actions",
    metadata,
    Column("seq", Sequence, primary_key=True),
    Column("action_id", Id, nullable=False),
    Column("at", Millis, nullable=False),
    Column("phase", String, nullable=False),
    Column("operator_id", Id),
    # The operator's name, or that of the key, as it was then.
    Column("operator", String, nullable=False),
    Column("action", String, nullable=False),
    Column("subject", String),
    # What was sent, before it is carried out; the state of the subject before and after, as JSON.
    Column("request", Text),
    Column("state", Text),
    # Of the answer.
    Column("status", Integer),
    Column("reason", String),
    Column("request_id", String),
    # If the request was traced.
    Column("trace_id", String),
    Index("operator_actions_by_id", "action_id", "phase", unique=True),
    Index("operator_actions_by_subject", "subject", "seq"),
    # How often something was done within an hour.
    Index("operator_actions_by_action", "action", "at"),
)


def _revoked(name: str, key: str) -> Table:
    """Whose tokens are refused until the revocation expires. Rewritten and pruned; never part of the books."""
    return Table(
        name,
        metadata,
        Column(key, Id, primary_key=True),
        Column("revoked_at", Millis, nullable=False),
        Column("expires_at", Millis, nullable=False),
        Column("reason", String),
        # The operator's or key's name.
        Column("revoked_by", String, nullable=False),
    )


revoked_buyers = _revoked("revoked_buyers", "buyer_id")
# Single tokens, by their `jti`.
revoked_tokens = _revoked("revoked_tokens", "token_id")

# What a second operator must agree to before it is carried out.
approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", Id, primary_key=True),
    Column("action", String, nullable=False),
    Column("subject", String),
    # The request: the values of its path as JSON, its body until it is decided, and its idempotency key.
    Column("parameters", Text, nullable=False),
    Column("body", Text),
    Column("idempotency_key", String),
    Column("fingerprint", String, nullable=False),
    # The operator, also if they asked with a key that they made.
    Column("requested_by_id", Id),
    Column("requested_by", String, nullable=False),
    Column("requested_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    # `pending`, `approved` or `rejected`. A pending one expires by the time.
    Column("state", String, nullable=False),
    Column("decided_by_id", Id),
    Column("decided_by", String),
    Column("decided_at", Millis),
    # Of the answer when it was carried out; none yet, or it is not known.
    Column("status", Integer),
    Column("reason", String),
    Index("approvals_by_state", "state", "requested_at"),
)
