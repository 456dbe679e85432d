"""Many rows as one parameter: nothing is lost, nothing is read as something else, the order is kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Table, select

from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.rows import encode_rows, insert_rows, rows_matching, rows_parameter, update_rows
from holdfast.ledger.tables.stock import events, reservations
from holdfast.testing.states import NOW

COLUMNS = [events.c.sku_id, events.c.reservation_id, events.c.type, events.c.at, events.c.quantity]
AWKWARD = [
    "",
    " ",
    "'",
    '"',
    "\\",
    "\n\t",
    "null",
    "NULL",
    "true",
    "1",
    "1.0",
    "[1]",
    "{}",
    "ü",
    "🎟",
    "名前",
    "%s",
    ":rows",
    "'; --",
]
BIGGEST = 2**63 - 1


def as_tuples(connection: Connection, table: Table, *columns: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(select(*columns).order_by(*table.primary_key.columns))]


async def written(database: Database, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What is read back after writing these rows as events."""

    def work(connection: Connection) -> list[tuple[Any, ...]]:
        connection.execute(events.delete())
        insert_rows(database.dialect_name, events, COLUMNS)(connection, rows)
        return as_tuples(connection, events, *COLUMNS)

    return await database.write(work)


async def test_awkward_texts_come_back_as_they_went(database: Database) -> None:
    rows = [(text, text, text, NOW, 1) for text in AWKWARD]
    assert await written(database, rows) == rows


async def test_nothing_comes_back_as_nothing_and_zero_as_zero(database: Database) -> None:
    rows = [("a", None, "t", NOW, None), ("b", "null", "t", 0, 0), ("c", "", "t", -1, -5)]
    assert await written(database, rows) == rows


async def test_the_largest_numbers_are_not_rounded(database: Database) -> None:
    rows = [("a", None, "t", BIGGEST, -BIGGEST), ("b", None, "t", 2**53 + 1, 2**53 - 1)]
    assert await written(database, rows) == rows


@pytest.mark.parametrize("count", [1, 3, 511, 512, 513, 1_700])
async def test_many_rows_keep_their_order(database: Database, count: int) -> None:
    rows = [(f"s{n % 7}", f"r{n}", "t", NOW, n) for n in range(count)]
    assert await written(database, rows) == rows


async def test_no_rows_are_no_rows(database: Database) -> None:
    assert await written(database, []) == []


async def test_only_the_rows_named_are_changed(database: Database) -> None:
    columns = [reservations.c.status, reservations.c.expires_at]
    first = [(f"r'{n}", "s", "o", 1, "active", NOW, NOW) for n in range(4)]

    def work(connection: Connection) -> list[tuple[Any, ...]]:
        connection.execute(reservations.insert().values(first))
        change = update_rows(database.dialect_name, reservations, reservations.c.reservation_id, columns)
        changed = [("r'1", "cancelled", NOW + 1), ("r'3", "expired", NOW + 3), ("unknown", "expired", 0)]
        connection.execute(change, {"rows": encode_rows(changed)})
        return as_tuples(connection, reservations, *columns)

    assert await database.write(work) == [
        ("active", NOW),
        ("cancelled", NOW + 1),
        ("active", NOW),
        ("expired", NOW + 3),
    ]


async def test_rows_are_found_by_any_of_the_rows_given(database: Database) -> None:
    rows = [(f"s{n}", f"r{m}", "t", NOW, n) for n in range(3) for m in range(3)]
    await written(database, rows)
    columns = [events.c.sku_id, events.c.reservation_id]
    statement = rows_matching(database.dialect_name, events, columns, events.c.quantity > 0)
    wanted = encode_rows([("s0", "r0"), ("s1", "r2"), ("s2", "r1"), ("s2", "r9"), ("x'", None)])
    found = await database.read(lambda connection: connection.execute(statement, {"rows": wanted}).all())
    assert sorted((row.sku_id, row.reservation_id) for row in found) == [("s1", "r2"), ("s2", "r1")]


# PostgreSQL's text has no NUL, and neither engine keeps half a surrogate pair; both are refused at the door.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)


@given(rows=st.lists(st.tuples(texts, texts | st.none(), st.integers(-BIGGEST, BIGGEST)), max_size=5))
async def test_any_text_survives_being_a_parameter(database: Database, rows: list[tuple[str, str | None, int]]) -> None:
    given_back = rows_parameter(database.dialect_name, [events.c.sku_id, events.c.reservation_id, events.c.at])

    def work(connection: Connection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(select(*given_back.c), {"rows": encode_rows(rows)})]

    assert await database.read(work) == rows
