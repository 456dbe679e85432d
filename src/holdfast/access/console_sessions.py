"""Console sign-in: a service key, a password or an OIDC identity is exchanged for a session, which can be ended."""

import hmac

from sqlalchemy import Connection

from holdfast.ledger.access.console_sessions import Session, SignedIn, begin_session, end_session, find_session, hash_of
from holdfast.ledger.access.keys import find_key
from holdfast.ledger.engine.database import Database

# The `Authorization` scheme of a session, set after its cookie was read.
SCHEME = "Session"
# One working day.
LASTS_S = 12 * 3600


class Sessions:
    def __init__(self, database: Database, service_key: str) -> None:
        self._database = database
        self._service_key_hash = hash_of(service_key)

    async def begin(self, key: str) -> tuple[str, Session] | None:
        """The token of a new session, or None if the key does not exist."""

        def work(connection: Connection) -> tuple[str, Session] | None:
            used = self._used(connection, key)
            return None if used is None else self.begin_in(connection, used)

        return await self._database.write(work)

    def begin_in(self, connection: Connection, used: SignedIn) -> tuple[str, Session]:
        """Within a transaction: the token of a new session."""
        now = self._database.now_ms(connection)
        token = begin_session(connection, used, now, LASTS_S * 1000)
        session = find_session(connection, token, self._service_key_hash, now)
        assert session is not None
        return token, session

    def _used(self, connection: Connection, key: str) -> SignedIn | None:
        if hmac.compare_digest(hash_of(key), self._service_key_hash):
            return SignedIn(key_hash=self._service_key_hash)
        found = find_key(connection, key)
        return None if found is None else SignedIn(key_id=found.key_id)

    async def find(self, token: str) -> Session | None:
        def work(connection: Connection) -> Session | None:
            return find_session(connection, token, self._service_key_hash, self._database.now_ms(connection))

        return await self._database.read(work)

    async def end(self, token: str) -> None:
        await self._database.write(lambda c: end_session(c, token))
