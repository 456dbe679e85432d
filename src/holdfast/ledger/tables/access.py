"""Service keys, operators, console sessions, and operators' actions."""

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
    # The key or operator that made it; revoking or disabling the maker also revokes this key. None for the admin key
    # and the command line.
    Column("created_by", Id),
    # 1: made when `operate` still included `money` and `admin`.
    Column("scopes_version", BigInteger, nullable=False, server_default="1"),
)

console_sessions = Table(
    "console_sessions",
    metadata,
    Column("session_id", Id, primary_key=True),
    Column("secret_hash", String, nullable=False),
    # The key it was started with; for the admin key, which is in no table, a hash instead.
    Column("key_id", Id),
    Column("key_hash", String),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    # The operator, for a named operator, who has no key.
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
    # Their identity at the OIDC issuer, since the first sign-in there.
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
    # The name of the operator or key at that time.
    Column("operator", String, nullable=False),
    Column("action", String, nullable=False),
    Column("subject", String),
    # The request, before it is carried out; the state of the subject before and after, as JSON.
    Column("request", Text),
    Column("state", Text),
    # Of the response.
    Column("status", Integer),
    Column("reason", String),
    Column("request_id", String),
    # If the request was traced.
    Column("trace_id", String),
    Index("operator_actions_by_id", "action_id", "phase", unique=True),
    Index("operator_actions_by_subject", "subject", "seq"),
    # For counting an operator's actions within an hour.
    Index("operator_actions_by_action", "action", "at"),
)


def _revoked(name: str, key: str) -> Table:
    """Buyers or tokens that are refused until the revocation expires. Rewritten and pruned; never part of the books."""
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

# Actions that a second operator must approve before they are carried out.
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
    # The operator, even if they made the request with a key that they made.
    Column("requested_by_id", Id),
    Column("requested_by", String, nullable=False),
    Column("requested_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    # `pending`, `approved` or `rejected`. A pending one expires by time.
    Column("state", String, nullable=False),
    Column("decided_by_id", Id),
    Column("decided_by", String),
    Column("decided_at", Millis),
    # Of the response when it was carried out; empty if it was not carried out, or if the outcome is unknown.
    Column("status", Integer),
    Column("reason", String),
    Index("approvals_by_state", "state", "requested_at"),
)
