"""Several processes on one PostgreSQL: together they grant exactly what is there, and each gets its share."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from holdfast.domain.stock.command import Provision
from holdfast.gate.sql import SqlGate
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from ledger_snapshot import read_ledger_snapshot

PROCESSES = 4
UNITS = 8_000
# An even share would be 1. A process that the row lock starves gets next to nothing, one that the machine starves less.
LEAST_SHARE = 0.1

HAMMER = Path(__file__).with_name("hammer.py")


async def started(url: str, name: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HAMMER), url, "sku", name, stdin=PIPE, stdout=PIPE, limit=2**20
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 90) == b"ready\n"
    return process


async def test_processes_grant_exactly_what_is_there_and_share_it_fairly(postgres_database_url: str) -> None:
    database = open_database(postgres_database_url, connections=2)
    await migrate(database)
    await SqlGate(database).apply("sku", [Provision(UNITS)])
    processes = [await started(postgres_database_url, f"process {n}") for n in range(PROCESSES)]
    told = await asyncio.wait_for(asyncio.gather(*[process.communicate(b"go\n") for process in processes]), 120)
    granted: list[list[str]] = [json.loads(output) for output, _ in told]
    books = await read_ledger_snapshot(database, "sku")
    await database.close()
    books.check()
    assert sorted(id_ for ids in granted for id_ in ids) == sorted(books.reservations)
    assert len(books.reservations) == UNITS
    mean = UNITS / PROCESSES
    assert min(map(len, granted)) >= LEAST_SHARE * mean, [len(ids) for ids in granted]
