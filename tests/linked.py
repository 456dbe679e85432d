"""Links all events of a database, which takes a moment where other tests have transactions open."""

import asyncio

from sqlalchemy import Connection, func, select

from holdfast.ledger.chain.linker import Linker
from holdfast.ledger.chain.links import read_head
from holdfast.ledger.engine.database import Database
from holdfast.ledger.tables.stock import events


def latest_event(connection: Connection) -> int:
    return int(connection.execute(select(func.coalesce(func.max(events.c.seq), 0))).scalar_one())


async def link_all(database: Database, linker: Linker | None = None) -> None:
    linker, upto = linker or Linker(database), await database.read(latest_event)
    async with asyncio.timeout(60):
        while (await database.read(read_head)).seq < upto:
            await linker.pass_once()
            await asyncio.sleep(0.01)
