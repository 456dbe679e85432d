"""A batch that changes places must not take longer the longer the line is."""

from pathlib import Path

from sqlalchemy import Connection, text

from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.migrate import migrate
from holdfast.ledger.room.queries import update_places

LINE = 300


def steps(connection: Connection) -> list[str]:
    """How SQLite goes about the change, once it knows that the line is long."""
    people = [{"n": number, "who": f"buyer-{number}"} for number in range(LINE)]
    insert = "INSERT INTO places (sale_id, arrival, buyer_id, ticket_id, joined_at) VALUES ('drop', :n, :who, 't', 0)"
    connection.execute(text(insert), people)
    connection.execute(text("ANALYZE"))
    statement = str(update_places("sqlite").compile(dialect=connection.dialect))
    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", ("[]",))
    return [str(row[3]) for row in plan]


async def test_places_are_changed_by_a_look_up_for_each_and_never_by_walking_along_the_line(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'holdfast.db'}")
    await migrate(database)
    found = await database.write(steps)
    await database.close()
    assert "SEARCH places USING PRIMARY KEY (sale_id=? AND arrival=?)" in found
