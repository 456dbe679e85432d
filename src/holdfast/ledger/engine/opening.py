"""Opens the database that a URL names."""

from sqlalchemy import make_url

from holdfast.ledger.engine.database import Database


def open_replica(url: str, *, connections: int) -> tuple[str, Database]:
    """Open a read replica of PostgreSQL. Also returns its name without the password that the URL may contain."""
    from holdfast.ledger.engine.postgres import PostgresDatabase  # noqa: PLC0415 - as below

    parsed = make_url(url)
    name = f"{parsed.host or parsed.query.get('host', 'localhost')}:{parsed.port or 5432}"
    return name, PostgresDatabase(parsed, connections, f"replica {name}")


def open_database(url: str, *, connections: int = 8) -> Database:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        from holdfast.ledger.engine.sqlite import SqliteDatabase  # noqa: PLC0415 - loaded only where it is used

        return SqliteDatabase(parsed)
    # asyncpg alone takes longer to load than everything SQLite needs, so each driver is loaded only where it is used.
    from holdfast.ledger.engine.postgres import PostgresDatabase  # noqa: PLC0415 - loaded only where it is used

    return PostgresDatabase(parsed, connections)
