"""How commands reach the ledger, and what they say when they cannot."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from holdfast.cli.options import hide_secrets
from holdfast.engines import Engine, database_file, open_engine, open_ledger
from holdfast.errors import Busy, EngineError, Unavailable
from holdfast.ledger.database import Database
from holdfast.log import set_up_logging
from holdfast.settings import Settings

T = TypeVar("T")


def run(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Open the ledger, do the work, close it."""

    async def opened() -> T:
        async with open_ledger(settings) as database:
            return await work(database)

    with explained(settings):
        return asyncio.run(opened())


def run_engine(settings: Settings, work: Callable[[Engine], Awaitable[T]]) -> T:
    """Open the gate, do the work, close it."""

    async def opened(database: Database) -> T:
        async with open_engine(settings, database) as engine:
            return await work(engine)

    # What agents would log, a command tells in its own words.
    set_up_logging("error")
    return run(settings, opened)


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
    except OSError as exc:
        if not _is_about_data(exc, settings):
            raise
        doctor = f"holdfast doctor --data {shlex.quote(str(settings.data))}"
        message = f"cannot use the data directory {settings.data}: {exc.strerror}\nFind out more with: {doctor}"
        raise Unavailable(message) from exc
    except EngineError as exc:
        doctor = "holdfast doctor" + (f" --data {shlex.quote(str(settings.data))}" if settings.is_embedded else "")
        raise type(exc)(f"{exc}\nThe database is {shown_url(settings)}. Find out more with: {doctor}") from exc


def _is_about_data(error: OSError, settings: Settings) -> bool:
    """Whether it is the data directory, one above it that is missing too, or a file in it that gave trouble."""
    if not isinstance(error.filename, str | Path):
        return False
    path, data = Path(error.filename).resolve(), settings.data.resolve()
    return path.is_relative_to(data) or data.is_relative_to(path)
