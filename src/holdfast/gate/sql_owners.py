"""Confirms refusals on PostgreSQL (`confirmed_refusals.py`)."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, Row

from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.pool_time import pool_time
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import State
from holdfast.gate.confirmed_refusals import Add, Seen
from holdfast.ledger.engine.database import Database, SharedDatabase
from holdfast.ledger.engine.prepared import Prepared, prepared
from holdfast.ledger.events.new_owners import NewOwners, OwnersMark, first_mark, new_owners, with_new_owners
from holdfast.ledger.stock.batch import batch_queries, first_in
from holdfast.ledger.stock.decide import NO_CHANGES
from holdfast.ledger.stock.gate_state import START, owner_ids_after
from holdfast.ledger.tables.rows import pool_from_row


@cache
def look_statement() -> Prepared:
    return prepared("postgresql", with_new_owners(batch_queries("postgresql").see_pool))


def see_new_owners(connection: Connection, sku_id: str, mark: OwnersMark) -> NewOwners | None:
    return new_owners(connection, look_statement(), sku_id, mark)


async def load_owners(database: Database, sku_id: str, add: Add) -> None:
    """All owners who had a reservation when this was called, and possibly some who got one since."""
    portion = START
    while True:
        after = portion
        owner_ids, portion = await database.read(lambda c: owner_ids_after(c, sku_id, after))  # noqa: B023
        add(owner_ids)
        if portion == START:
            return


class SqlOwners:
    def __init__(self, database: SharedDatabase) -> None:
        self._database = database

    async def load(self, sku_id: str, add: Add) -> OwnersMark | None:
        complete_to = await self._database.read(lambda c: first_mark(c, sku_id))
        if complete_to is not None:
            await load_owners(self._database, sku_id, add)
        return complete_to

    async def look(self, sku_id: str, mark: OwnersMark, attempt: Reserve) -> Seen | None:
        def seen(connection: Connection) -> Seen | None:
            found = see_new_owners(connection, sku_id, mark)
            if found is None:
                return None
            now = pool_time(self._database.now_ms(connection), found.pool.decided_at)
            return Seen(_verdict(sku_id, found.pool, attempt, now), found.owner_ids, found.mark)

        return await self._database.read_statement(seen)


def _verdict(sku_id: str, pool: Row[Any], attempt: Reserve, now: int) -> Verdict | None:
    """The result of `decide_without_lock` for an owner who has nothing."""
    earliest = {r.reservation_id: r for r in first_in(pool)}
    if any(reservation.is_due(now) for reservation in earliest.values()):
        return None
    decision = decide(State(sku_id, pool_from_row(pool), earliest), [attempt], now)
    return decision.verdicts[0] if decision.changes == NO_CHANGES else None
