"""The background tasks of the control database and of all cells, in one process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from holdfast.bootstrap.cells.opening import Opening, opened_as
from holdfast.bootstrap.cells.settings import all_cells
from holdfast.bootstrap.cells.webhook_copies import WebhookCopies
from holdfast.bootstrap.services import open_worker
from holdfast.bootstrap.stores import open_ledger
from holdfast.ledger.engine.database import Database
from holdfast.runtime.agent import Agents
from holdfast.settings import Settings


@asynccontextmanager
async def open_workers(settings: Settings) -> AsyncIterator[Agents]:
    """A lost cell is retried; the others continue."""
    async with open_worker(settings) as agents, open_ledger(settings) as control, AsyncExitStack() as stack:
        for name, given in all_cells(settings).items():
            opening = Opening(name, partial(opened_as, name, given, partial(_worker, given, control)))
            stack.push_async_callback(opening.close)
        yield agents


@asynccontextmanager
async def _worker(settings: Settings, control: Database) -> AsyncIterator[Agents]:
    async with open_worker(settings) as agents, open_ledger(settings) as database:
        agents.start(WebhookCopies(control, database).agent())
        yield agents
