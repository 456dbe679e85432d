"""How commands about orders and money reach what they work with, and what they have in common."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from holdfast.bootstrap import open_cashier
from holdfast.cli.ledger import run
from holdfast.engines import open_engine
from holdfast.ledger.database import Database
from holdfast.log import set_up_logging
from holdfast.settings import Settings
from holdfast.settlement.cashier import Cashier

T = TypeVar("T")

Limit = Annotated[int, typer.Option(help="How many at most.", min=1, max=1_000, metavar="N")]
After = Annotated[str | None, typer.Option("--after", help="The last id of the page before.", metavar="ID")]


def run_cashier(settings: Settings, work: Callable[[Cashier], Awaitable[T]]) -> T:
    """Open the ledger, the gate and the payment providers, do the work, close them."""

    async def opened(database: Database) -> T:
        async with open_engine(settings, database) as engine, open_cashier(settings, database, engine) as cashier:
            return await work(cashier)

    # What agents would log, a command tells in its own words.
    set_up_logging("error")
    return run(settings, opened)
