"""How commands open the ledger, and how they report that they cannot."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from holdfast.bootstrap.marks import compare_kept
from holdfast.bootstrap.stores import database_file, open_engine, open_ledger
from holdfast.cli.options import hide_secrets
from holdfast.errors import Busy, EngineError, Unavailable
from holdfast.gate.engine import Engine
from holdfast.ledger.engine.database import Database
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings

T = TypeVar("T")


def run(settings: Settings, work: Callable[[Database], Awaitable[T]], *, recovering: bool = False) -> T:
    """Run `work` with the ledger open. If the ledger went back, it can be read; only a recovery may write."""

    async def opened() -> T:
        async with open_ledger(settings) as database:
            for finding, _ in [] if recovering else await compare_kept(settings, database):
                database.guard.finding = finding
            return await work(database)

    # The command reports problems itself.
    set_up_logging("error")
    with explained(settings):
        return asyncio.run(opened())


def run_engine(settings: Settings, work: Callable[[Database, Engine], Awaitable[T]]) -> T:
    """Run `work` with the ledger and the gate open."""

    async def opened(database: Database) -> T:
        async with open_engine(settings, database) as engine:
            return await work(database, engine)

    return run(settings, opened)


def write(settings: Settings, work: Callable[[Connection, int], T]) -> T:
    """Run `work` in one transaction, with the engine's time."""
    return run(settings, lambda db: db.write(lambda connection: work(connection, db.now_ms(connection))))


def is_new(settings: Settings) -> bool:
    """Whether there is no embedded database yet. A read-only command must not create one in the current directory."""
    return settings.is_embedded and not database_file(settings).exists()


def shown_url(settings: Settings) -> str:
    """A short description of the database."""
    if settings.is_embedded:
        return str(database_file(settings))
    return hide_secrets(settings.database_url)


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Add the database and a hint to engine errors."""
    try:
        yield
    except Busy:
        raise
    except OSError as exc:
        if not _is_about_data(exc, settings):
            raise
        doctor = f"holdfast doctor --data {shlex.quote(str(settings.data))}"
        message = f"cannot use the data directory {settings.data}: {exc.strerror}\nTo diagnose: {doctor}"
        raise Unavailable(message) from exc
    except EngineError as exc:
        doctor = "holdfast doctor" + (f" --data {shlex.quote(str(settings.data))}" if settings.is_embedded else "")
        raise type(exc)(f"{exc}\nThe database is {shown_url(settings)}. To diagnose: {doctor}") from exc


def _is_about_data(error: OSError, settings: Settings) -> bool:
    """Whether the error concerns the data directory, a missing parent, or a file in it."""
    if not isinstance(error.filename, str | Path):
        return False
    path, data = Path(error.filename).resolve(), settings.data.resolve()
    return path.is_relative_to(data) or data.is_relative_to(path)
