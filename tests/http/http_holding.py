"""Holding up the decisions on a pool from outside, so that requests can be caught while they wait."""

import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, closing
from pathlib import Path

import asyncpg
from http_calling import Shop
from http_serving import SERVE, Server, started

_PATIENT = (sys.executable, str(Path(__file__).with_name("patient_server.py")), "serve")


def started_patient(directory: Path, settings: dict[str, str]) -> AbstractContextManager[Server]:
    return started(directory, settings=settings, command=_PATIENT if "DATABASE_URL" in settings else SERVE)


@asynccontextmanager
async def held_up(server: Server, shop: Shop) -> AsyncIterator[None]:
    """Meanwhile nothing is decided on this pool: somebody else has its lock, for no longer than transactions last."""
    async with _locked(server, shop):
        yield


@asynccontextmanager
async def _locked(server: Server, shop: Shop) -> AsyncIterator[None]:
    url = server.environment.get("HOLDFAST_DATABASE_URL")
    if url is None:
        with closing(sqlite3.connect(server.directory / "data" / "holdfast.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
        return
    other = await asyncpg.connect(url)
    try:
        async with other.transaction():
            await other.execute("SELECT * FROM pools WHERE sku_id = $1 FOR UPDATE", shop.sku_id)
            yield
    finally:
        await other.close()
