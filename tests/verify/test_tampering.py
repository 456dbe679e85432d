"""No change to the books of a finished sale goes unseen: every table, every column, every row added or deleted.

What `verify` does not see yet is in `MISSED`, which only ever shrinks: the test fails if one of them is found.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from finished_sale import FinishedSale
from rewriting import REWRITES, Rewrite
from schema_tampering import ADDED, DELETED, Tampering, changes_of
from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from databases import new_postgres_database, new_sqlite_database
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.schema import metadata
from holdfast.verify import history, replay
from holdfast.verify.check import Ledger, Level
from holdfast.verify.free_columns import FREE
from holdfast.verify.prove import CHECKS
from holdfast.verify.sandbox import Entry, compare

# Only where Redis is the gate, or for a moment, or after years.
ELSEWHERE = {"claims", "pruned_events", "redacted_events", "splits", "transfers"}
TABLES = [table for table in metadata.sorted_tables if not FREE.is_free(table) and table.name not in ELSEWHERE]
# Each part tampers with some columns of a table.
PARTS = [(table, part) for table in TABLES for part in range(9 if table.name == "events" else 4)]
MISSED: dict[str, str] = {
    # An event after the last link, which is about a second old at most.
    "events": "added",
    # Without its last link, a chain is a shorter one: only a checkpoint shows it.
    "links": "deleted",
}


class _Undo(Exception):
    pass


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FinishedSale]:
    if request.param == "sqlite":
        url = new_sqlite_database(tmp_path_factory.mktemp("finished") / "sale.db")
    else:
        url = new_postgres_database(request.getfixturevalue("postgres_url"))
    database = open_database(url)
    sale = FinishedSale(database)
    await sale.run()
    yield sale
    await database.close()


def books_of(sale: FinishedSale) -> dict[str, Entry]:
    entries = [msgspec.convert(msgspec.to_builtins(entry), Entry) for entry in sale.sandbox.ledger.page(0, 1_000)]
    return {entry.key: entry for entry in entries}


def first_finding(connection: Connection, books: dict[str, Entry]) -> str | None:
    """The replay finds most, so it comes first. The chain comes last: what it alone finds, nothing else does."""
    ledger = Ledger(connection)
    of_sandbox = next((finding.name for finding in compare(connection, books) if not finding.ok), None)
    if of_sandbox is not None:
        return of_sandbox
    for check in sorted(CHECKS, key=lambda check: (check in history.CHECKS) - (check in replay.CHECKS)):
        if check.level is Level.FAILURE and not ledger.run(check).ok:
            return check.name
    return None


async def found_by(sale: FinishedSale, make: Any) -> str | None:
    """The first check that names the change, which is undone again. A change that the database refuses is found too."""
    found: list[str | None] = []

    def work(connection: Connection) -> None:
        try:
            make(connection)
        except DBAPIError:
            found.append("refused by the database")
        else:
            found.append(first_finding(connection, books_of(sale)))
        raise _Undo

    with pytest.raises(_Undo):
        await sale.database.write(work, timeout_s=60.0)
    return found[0]


async def tamperings(sale: FinishedSale, table: Table) -> list[Tampering]:
    return await sale.database.read(lambda c: list(changes_of(c, table)))


async def test_a_finished_sale_is_proven(finished: FinishedSale) -> None:
    assert await found_by(finished, lambda _: None) is None


@pytest.mark.parametrize(("table", "part"), PARTS, ids=lambda value: getattr(value, "name", str(value)))
async def test_every_change_of_a_row_is_found(finished: FinishedSale, table: Table, part: int) -> None:
    wanted = set(_changed_things(table)[part :: 9 if table.name == "events" else 4])
    missed: dict[str, str] = {}
    for tampering in await tamperings(finished, table):
        if tampering.what in wanted and await found_by(finished, tampering.make) is None:
            missed.setdefault(tampering.what, tampering.about)
    assert missed.keys() == wanted & set(MISSED.get(table.name, "").split()), missed


async def test_every_table_that_matters_has_rows(finished: FinishedSale) -> None:
    assert [table.name for table in TABLES if not await finished.rows(table)] == []


def test_every_free_column_and_every_listed_change_exists() -> None:
    tables = metadata.tables
    assert FREE.tables.keys() <= tables.keys()
    for name, columns in FREE.columns.items():
        assert columns.keys() <= {c.name for c in tables[name].c}
    for name, listed in MISSED.items():
        assert set(listed.split()) <= set(_changed_things(tables[name]))


def _changed_things(table: Table) -> list[str]:
    return [*(c.name for c in table.c if not FREE.is_free(table, c.name)), DELETED, ADDED]


@pytest.mark.parametrize("make", REWRITES, ids=lambda make: make.__name__)
async def test_a_rewrite_of_both_sides_is_found_by_the_chain_alone(finished: FinishedSale, make: Rewrite) -> None:
    """What needs the chain: everything else agrees."""
    assert await found_by(finished, make) == "history_unchanged"
