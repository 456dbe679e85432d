"""How far a stream has come, and which process publishes it."""

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables.streams import streams


def ensure_stream(connection: Connection, name: str) -> None:
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    connection.execute(insert(streams).values(name=name).on_conflict_do_nothing())
