"""The ledger of a running server, for what has no route of its own."""

import asyncio
from typing import Any

from http_serving import Server

from holdfast.ledger.engine.database import Work
from holdfast.ledger.engine.opening import open_database


def in_ledger(server: Server, work: Work[Any]) -> Any:
    """Straight in the database that the server uses, for what has no route of its own."""
    url = server.environment.get("HOLDFAST_DATABASE_URL") or f"sqlite:///{server.directory}/data/holdfast.db"

    async def run() -> Any:
        database = open_database(url)
        try:
            return await database.write(work)
        finally:
            await database.close()

    return asyncio.run(run())
