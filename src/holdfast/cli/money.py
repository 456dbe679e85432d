"""What commands about orders and payments share."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from holdfast.bootstrap.payments import PaymentServices, open_payment_services
from holdfast.cli.ledger import run_engine
from holdfast.gate.engine import Engine
from holdfast.ledger.engine.database import Database
from holdfast.settings import Settings

T = TypeVar("T")

Limit = Annotated[int, typer.Option(help="Maximum number of items.", min=1, max=1_000, metavar="N")]
After = Annotated[str | None, typer.Option("--after", help="The last ID of the previous page.", metavar="ID")]


def run_payments(settings: Settings, work: Callable[[PaymentServices], Awaitable[T]]) -> T:
    """Run `work` with the ledger, the gate and the payment providers open."""

    async def opened(database: Database, engine: Engine) -> T:
        async with open_payment_services(settings, database, engine) as payments:
            return await work(payments)

    return run_engine(settings, opened)
