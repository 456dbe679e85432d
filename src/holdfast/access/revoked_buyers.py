"""Buyers whose valid tokens are refused until a revocation by an operator expires.

The model. Every process has the whole list in memory, so a request costs two set look-ups, or none while the list is
empty. Twice a second the process reads the list's revision (counts and sums) from the ledger, and reads the list again
if the revision changed. The process that handles a revocation applies it before it responds.

When it fails. While the ledger does not respond, the last list stays in effect.
"""

import asyncio

from sqlalchemy import Connection

from holdfast.access.identity import Caller
from holdfast.ledger.access.revocations import Revision, revision, revoked_ids
from holdfast.ledger.engine.database import Database
from holdfast.runtime.agent import Agent

REFRESH_S = 0.5

_Ids = frozenset[str]


class RevokedBuyers:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._revision: Revision | None = None
        self._buyers, self._tokens = _Ids(), _Ids()
        self._is_empty = True
        self._refreshing = asyncio.Lock()

    def agent(self) -> Agent[None]:
        return Agent("revoked_buyers", self.refresh, REFRESH_S)

    async def refresh(self) -> None:
        # One read at a time: a list from before a revocation must not replace one from after it.
        async with self._refreshing:
            found = await self._database.read(self._read)
            if found is not None:
                self._revision, self._buyers, self._tokens = found
                self._is_empty = not (self._buyers or self._tokens)

    def _read(self, connection: Connection) -> tuple[Revision, _Ids, _Ids] | None:
        """None if the list is unchanged."""
        now = self._database.now_ms(connection)
        current = revision(connection, now)
        return None if current == self._revision else (current, *revoked_ids(connection, now))

    def includes(self, caller: Caller) -> bool:
        return not self._is_empty and (caller.buyer_id in self._buyers or caller.token_id in self._tokens)
