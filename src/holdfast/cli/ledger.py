"""How commands reach the ledger, and what they say when they cannot."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection

from holdfast.bootstrap import database_file, open_ledger
from holdfast.cli.options import hide_secrets
from holdfast.errors import Busy, EngineError
from holdfast.ledger.database import Database
from holdfast.settings import Settings

T = TypeVar("T")


def run(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Open the ledger, do the work, close it."""

    async def opened() -> T:
        async with open_ledger(settings) as database:
            return await work(database)

    with explained(settings):
        return asyncio.run(opened())


def write(settings: Settings, work: Callable[[Connection, int], T]) -> T:
    """Do the work in one transaction, at the engine's time."""
    return run(settings, lambda db: db.write(lambda connection: work(connection, db.now_ms(connection))))


def is_new(settings: Settings) -> bool:
    """Whether there is no embedded database yet. A look at nothing must not make one in whatever directory it is in."""
    return settings.is_embedded and not database_file(settings).exists()


def shown_url(settings: Settings) -> str:
    """Which database it is, in a few words."""
    if settings.is_embedded:
        return str(database_file(settings))
    return hide_secrets(settings.database_url)


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Say which database it was, and where to learn more."""
    try:
        yield
    except Busy:
        raise
    except EngineError as exc:
        doctor = "holdfast doctor" + (f" --data {shlex.quote(str(settings.data))}" if settings.is_embedded else "")
        raise type(exc)(f"{exc}\nThe database is {shown_url(settings)}. Find out more with: {doctor}") from exc
