"""What is sent to PostgreSQL, by SQLAlchemy or around it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest
from asyncpg.prepared_stmt import PreparedStatement


@contextmanager
def statements_sent() -> Iterator[list[str]]:
    """Every statement that is executed meanwhile on any connection, BEGIN (with an isolation level, or not) and COMMIT
    included."""
    sent: list[str] = []
    fetch, execute = PreparedStatement.fetch, asyncpg.Connection.execute

    async def fetching(prepared: PreparedStatement, *given: Any, **options: Any) -> Any:
        sent.append(prepared.get_query())
        return await fetch(prepared, *given, **options)

    async def executing(connection: asyncpg.Connection, query: str, *given: Any, **options: Any) -> Any:
        sent.append(query.removesuffix(";"))
        return await execute(connection, query, *given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PreparedStatement, "fetch", fetching)
        patch.setattr(asyncpg.Connection, "execute", executing)
        yield sent
