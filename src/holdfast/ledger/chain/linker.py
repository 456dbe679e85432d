"""Links events soon after they are committed.

The model. A pass reads the events after the last link that are certain to be complete (`horizon.py`) and appends a
link. Writers pay nothing for it: no lock, no statement and no byte in their transactions. It covers the events of all
writers, including servers of the previous version. Any number of linkers may run: links are numbered, and the database
rejects a second link with the same number.

What it leaves open. Until the next pass, at most about a second, an event is in no link. Nothing is lost by that: a
link proves something only once a checkpoint with it is stored elsewhere, and those are written once a second (ADR 15).
"""

import asyncio
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from holdfast.errors import EngineError
from holdfast.ledger.chain.horizon import Horizon, Seen, horizon_queries
from holdfast.ledger.chain.leaves import HashQueries
from holdfast.ledger.chain.links import Link, append_link, last_link
from holdfast.ledger.engine.database import Database
from holdfast.runtime.agent import Agent

INTERVAL_S = 1.0
# Between seeing events and knowing that they are complete.
HORIZON_S = 0.1
# Less than the time agents have to stop.
LAST_PASSES_S = 0.5
# Events per link.
LINKED_MAX = 10_000


class Linked(Struct, frozen=True):
    events: int = 0
    is_waiting: bool = False
    """Whether there are events that may not be complete yet."""


class Linker:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._horizon, self._seen_before = Horizon(), 0
        self._queries = horizon_queries(database.dialect_name)
        self._hashes = HashQueries(database.dialect_name)

    def agent(self) -> Agent[Linked]:
        return Agent("linker", self.pass_once, INTERVAL_S, rest_s=_rest_s, close=self._link_the_rest)

    async def pass_once(self) -> Linked:
        seen, last = await self._database.read(self._look)
        linked = after = 0 if last is None else last.last_seq
        upto = self._horizon.reached(self._settled(seen))
        hashes: list[bytes] = []
        while len(hashes) < LINKED_MAX and after < upto:
            after, part = await self._database.read(partial(self._hashes.read, after=after, upto=upto))
            hashes += part
        if not hashes:
            return Linked(is_waiting=seen.seq > linked)
        try:
            await self._database.write(partial(self._append, last, after, hashes))
        except IntegrityError:
            return Linked()  # Another process has linked them.
        return Linked(len(hashes))

    def _settled(self, seen: Seen) -> Seen:
        """On PostgreSQL, the events of the previous pass: a transaction that took a number by then has an ID by now,
        even if writing the event is its first statement."""
        before, self._seen_before = self._seen_before, seen.seq
        return seen if seen.xmax == 0 else replace(seen, seq=min(before, seen.seq))

    async def _link_the_rest(self) -> None:
        """Leave a complete chain when a server stops, if its database responds quickly."""
        with suppress(EngineError, TimeoutError):
            async with asyncio.timeout(LAST_PASSES_S):
                while (linked := await self.pass_once()).events or linked.is_waiting:
                    pass

    def _look(self, connection: Connection) -> tuple[Seen, Link | None]:
        return self._queries.look(connection, self._horizon.known), last_link(connection)

    def _append(self, last: Link | None, upto: int, hashes: list[bytes], connection: Connection) -> None:
        append_link(connection, last, upto, hashes, self._database.now_ms(connection))


def _rest_s(linked: Linked) -> float:
    if linked.events >= LINKED_MAX:
        return 0.0
    return HORIZON_S if linked.is_waiting else INTERVAL_S
