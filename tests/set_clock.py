"""The real database, by a clock that the test sets."""

from sqlalchemy import Connection

from holdfast.ledger.database import TRANSACTION_TIMEOUT_S, Database, T, Work
from worlds import NOW


class SetClock:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect_name = database.dialect_name
        self.now = NOW

    def advance(self, ms: int) -> None:
        self.now += ms

    def now_ms(self, connection: Connection) -> int:
        return self.now

    def known_now_ms(self) -> int | None:
        return self.now

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, at_once: bool = False
    ) -> T:
        return await self._database.write(work, timeout_s=timeout_s, brief=brief, at_once=at_once)

    async def read(self, work: Work[T]) -> T:
        return await self._database.read(work)

    async def glance(self, work: Work[T]) -> T:
        return await self._database.glance(work)

    async def close(self) -> None:
        await self._database.close()
