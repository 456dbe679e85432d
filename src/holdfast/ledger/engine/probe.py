"""One PostgreSQL connection kept open for probes.

Over a slow network, opening a connection takes many round trips, which would exceed the probe's timeout and make a live
server look dead. So servers open the connection with their first heartbeat, and a connection attempt outlives the probe
that began it.
"""

import asyncio
from contextlib import suppress

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine


class ProbeConnection:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._opening: asyncio.Task[AsyncConnection] | None = None

    def open(self) -> "asyncio.Task[AsyncConnection]":
        """The connection: already open, being opened, or opened now."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(self._note)
        return self._opening

    async def ask(self) -> None:
        was_open = self._opening is not None and self._opening.done()
        try:
            await self._ask_once()
        except Exception:
            if not was_open:
                raise
            # The server, or a proxy, may have closed it while it was idle.
            await self._ask_once()

    async def _ask_once(self) -> None:
        connection = await asyncio.shield(self.open())
        try:
            await connection.execute(select(1))
        except BaseException:
            self._opening = None
            await _drop(connection)
            raise

    async def _connect(self) -> AsyncConnection:
        return await self._engine.connect()

    def _note(self, opening: "asyncio.Task[AsyncConnection]") -> None:
        failed = opening.cancelled() or opening.exception() is not None
        if failed and self._opening is opening:
            self._opening = None

    async def close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await _drop(await opening)


async def _drop(connection: AsyncConnection) -> None:
    with suppress(SQLAlchemyError):
        await connection.invalidate()
        await connection.close()
