"""Confirms refusals where Redis is the gate (`gate/confirmed_refusals.py`).

The journal names every owner who gets units, in order and without gaps, until the ledger has it. So a read is two
commands: a view of the pool, then the entries after the last one that was read. If the ledger has copied and trimmed
some of them meanwhile, they are read from its events (`ledger/events/new_owners.py`), and the journal is followed from
the ledger's position. Parts of entries that the ledger refused are in neither, so pools with such entries are left to
the gate. So are split pools, because no shard knows whether the whole pool is empty.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, select

from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.rulebook import decide
from holdfast.domain.stock.state import State
from holdfast.gate.audit import GatePool
from holdfast.gate.confirmed_refusals import Add, Seen
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import Keys, decode
from holdfast.gate.redis.link.replies import RedisRefused
from holdfast.gate.redis.views import gate_pool, view_call
from holdfast.gate.sql_owners import load_owners, see_new_owners
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.new_owners import NewOwners, OwnersMark, first_mark
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.decide import NO_CHANGES
from holdfast.ledger.stock.journal import position
from holdfast.ledger.tables.stock import parked_entries

# The rest is read the next time.
ENTRIES_MAX = 200
_CREATED, _OWNER = 3, 1


class RedisOwnersMark(Struct, frozen=True):
    """The position up to which all owners are known: an event of the ledger, and an entry of the journal."""

    ledger: OwnersMark
    journal: Position


class RedisOwners:
    def __init__(self, client: RedisClient, database: Database) -> None:
        self._client = client
        self._database = database

    async def load(self, sku_id: str, add: Add) -> RedisOwnersMark | None:
        def begin(connection: Connection) -> RedisOwnersMark | None:
            ledger = first_mark(connection, sku_id)
            at = position(connection, sku_id)
            if ledger is None or at is None or _has_parked(connection, sku_id, at.epoch):
                return None
            return RedisOwnersMark(ledger, at)

        mark = await self._database.read(begin)
        if mark is not None:
            await load_owners(self._database, sku_id, add)
        return mark

    async def look(self, sku_id: str, mark: RedisOwnersMark, attempt: Reserve) -> Seen | None:
        seen = await self._look_in_journal(sku_id, mark, attempt)
        if seen is not None:
            return seen
        drained = await self._read_ledger(sku_id, mark.ledger)
        if drained is None or drained.pool.epoch != mark.journal.epoch:
            return None
        at = max(mark.journal.seq, drained.pool.journal_seq)
        mark = RedisOwnersMark(drained.mark, Position(mark.journal.epoch, at))
        seen = await self._look_in_journal(sku_id, mark, attempt)
        return None if seen is None else replace(seen, owner_ids=[*drained.owner_ids, *seen.owner_ids])

    async def _read_ledger(self, sku_id: str, mark: OwnersMark) -> NewOwners | None:
        def read(connection: Connection) -> NewOwners | None:
            found = see_new_owners(connection, sku_id, mark)
            # Read later, so it has at least those of the entries that the ledger had then.
            is_parted = found is not None and _has_parked(connection, sku_id, found.pool.epoch)
            return None if is_parted else found

        return await self._database.read(read)

    async def _look_in_journal(self, sku_id: str, mark: RedisOwnersMark, attempt: Reserve) -> Seen | None:
        """None if entries are missing, or if the mark belongs to another journal."""
        keys, now = Keys(sku_id), self._database.known_now_ms() or 0
        after = f"({mark.journal.epoch}-{mark.journal.seq}"
        entries: list[str | bytes | int] = ["XRANGE", keys.journal, after, "+", "COUNT", ENTRIES_MAX]
        try:
            view, found = await self._client.call(keys.pool, view_call(keys, now), entries)
        except RedisRefused:
            return Seen(None, [], mark)  # The gate loads the library that is missing.
        pool = gate_pool(sku_id, view)
        if pool is None or pool.at.epoch != mark.journal.epoch or pool.at.seq < mark.journal.seq:
            return None
        read_to = _last_without_gap(mark.journal, [entry_id for entry_id, _ in found])
        if read_to is None or (read_to < pool.at.seq and len(found) < ENTRIES_MAX):
            return None
        owner_ids = [hold[_OWNER] for _, (_, payload) in found for hold in decode(payload)[_CREATED]]
        verdict = _verdict(pool, attempt) if read_to >= pool.at.seq else None
        return Seen(verdict, owner_ids, replace(mark, journal=Position(mark.journal.epoch, read_to)))


def _has_parked(connection: Connection, sku_id: str, epoch: int) -> bool:
    parked = select(parked_entries.c.entry_id).where(parked_entries.c.sku_id == sku_id, parked_entries.c.epoch == epoch)
    return connection.execute(parked.limit(1)).first() is not None


def _last_without_gap(after: Position, entry_ids: Sequence[bytes]) -> int | None:
    """The sequence of the last entry, or None if an earlier one is missing."""
    seq = after.seq
    for entry_id in entry_ids:
        epoch, _, number = entry_id.partition(b"-")
        if int(epoch) != after.epoch or int(number) != seq + 1:
            return None
        seq += 1
    return seq


def _verdict(seen: GatePool, attempt: Reserve) -> Verdict | None:
    if not seen.is_open or seen.due_reservations:
        return None
    pool, holds = seen.pool, dict[str, Reservation]()
    if seen.next_return_at is not None:
        holds[""] = Reservation("", pool.sku_id, "", 1, Status.ACTIVE, 0, seen.next_return_at)
    decision = decide(State(pool.sku_id, pool, holds), [attempt], seen.now)
    return decision.verdicts[0] if decision.changes == NO_CHANGES else None
