"""The real database, by a clock that the test sets."""

from sqlalchemy import Connection

from holdfast.ledger.engine.database import TRANSACTION_TIMEOUT_S, Database, T, Work
from holdfast.testing.states import NOW


class SetClock:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.dialect_name = database.dialect_name
        self.guard = database.guard
        self.now = NOW

    def advance(self, ms: int) -> None:
        self.now += ms

    def now_ms(self, connection: Connection) -> int:
        return self.now

    def known_now_ms(self) -> int | None:
        return self.now

    def clock_step_ms(self) -> int:
        return self._database.clock_step_ms()

    async def write(
        self, work: Work[T], *, timeout_s: float = TRANSACTION_TIMEOUT_S, brief: bool = False, autocommit: bool = False
    ) -> T:
        return await self._database.write(work, timeout_s=timeout_s, brief=brief, autocommit=autocommit)

    async def read(self, work: Work[T]) -> T:
        return await self._database.read(work)

    async def lock_free_read(self, work: Work[T]) -> T:
        return await self._database.lock_free_read(work)

    async def close(self) -> None:
        await self._database.close()
