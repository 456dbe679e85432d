"""Solved challenges that were spent, so that none is spent twice: by any process, before or after a restart."""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import BigInteger, Column, Connection, Index, Table, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables import Id, Millis, metadata

spent_challenges = Table(
    "spent_challenges",
    metadata,
    Column("challenge_id", Id, primary_key=True),
    Column("sale_id", Id, nullable=False),
    Column("buyer_id", Id, nullable=False),
    # Tells who of those that spend the same one at the same time was first.
    Column("claim", BigInteger, nullable=False),
    Column("expires_at", Millis, nullable=False),
    Index("spent_challenges_by_expiry", "expires_at"),
)


class Spending(Struct, frozen=True):
    challenge_id: str
    sale_id: str
    buyer_id: str
    claim: int
    expires_at: int


def spend(connection: Connection, spendings: Sequence[Spending]) -> dict[str, tuple[str, int]]:
    """The buyer and the claim that each challenge belongs to from now on; the first to claim one has it."""
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    rows = {s.challenge_id: _row(s) for s in reversed(spendings)}
    # In one order for all, so that two processes never wait for each other.
    connection.execute(insert(spent_challenges).on_conflict_do_nothing(), [rows[id_] for id_ in sorted(rows)])
    c = spent_challenges.c
    found = connection.execute(select(c.challenge_id, c.buyer_id, c.claim).where(c.challenge_id.in_(rows)))
    return {row.challenge_id: (row.buyer_id, row.claim) for row in found}


def _row(spending: Spending) -> dict[str, object]:
    return {name: getattr(spending, name) for name in Spending.__struct_fields__}


def prune_spent(connection: Connection, older_than: int, *, limit: int) -> int:
    """Forget up to `limit` that expired before a moment: nobody could spend them again."""
    c = spent_challenges.c
    oldest = select(c.challenge_id).where(c.expires_at < older_than).order_by(c.expires_at).limit(limit)
    return connection.execute(delete(spent_challenges).where(c.challenge_id.in_(oldest))).rowcount
