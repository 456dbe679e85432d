"""Spent challenges, so that none is accepted twice: by any process, before or after a restart."""

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables.room import spent_challenges


class Spending(Struct, frozen=True):
    challenge_id: str
    sale_id: str
    buyer_id: str
    claim: int
    expires_at: int


class Spent(Struct, frozen=True):
    """The buyer and the claim that a challenge belongs to; the first claim wins."""

    buyer_id: str
    claim: int
    # Spent for the first time, in this batch.
    is_new: bool


def spend(connection: Connection, spendings: Sequence[Spending]) -> dict[str, Spent]:
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    rows = {s.challenge_id: _row(s) for s in reversed(spendings)}
    c = spent_challenges.c
    # In a fixed order, so that two processes cannot deadlock.
    spending = insert(spent_challenges).on_conflict_do_nothing().returning(c.challenge_id)
    new = set(connection.execute(spending, [rows[id_] for id_ in sorted(rows)]).scalars())
    found = connection.execute(select(c.challenge_id, c.buyer_id, c.claim).where(c.challenge_id.in_(rows)))
    return {row.challenge_id: Spent(row.buyer_id, row.claim, row.challenge_id in new) for row in found}


def spender_of(connection: Connection, challenge_id: str) -> str | None:
    c = spent_challenges.c
    return connection.execute(select(c.buyer_id).where(c.challenge_id == challenge_id)).scalar_one_or_none()


def _row(spending: Spending) -> dict[str, object]:
    return {name: getattr(spending, name) for name in Spending.__struct_fields__}


def prune_spent(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete up to `limit` that expired before this: expired challenges are refused anyway."""
    c = spent_challenges.c
    oldest = select(c.challenge_id).where(c.expires_at < older_than).order_by(c.expires_at).limit(limit)
    return connection.execute(delete(spent_challenges).where(c.challenge_id.in_(oldest))).rowcount
