"""The demo's data: a pool and a sale to try by hand, and a new drop that opens shortly."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import time

from msgspec import Struct

from holdfast.bootstrap.services import build_sale_operations
from holdfast.bootstrap.stores import database_file, open_engine, open_ledger
from holdfast.domain.sale.sale import Checkout, PaymentKind, ProofOfWork, Room, RoomMode, Sale, SaleState
from holdfast.domain.stock.command import Provision
from holdfast.domain.stock.pool import Rules
from holdfast.errors import AlreadyRunning, SettingsError
from holdfast.gate.port import Gate
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.server_lock import ServerLock
from holdfast.ledger.sales.sale_lists import list_sales
from holdfast.runtime.private_files import make_private_directory
from holdfast.sales.operations import SaleOperations
from holdfast.settings import Settings

DEMO = "demo"
DEMO_UNITS = 500
PRICE, CURRENCY = 4_900, "EUR"
# Enough time for the server to start and for a visitor to read the page and join.
OPENS_IN_S = 22
# The time to call one buyer per unit: the sale lasts a minute, and one can watch the queue advance.
SELLS_IN_S = 35
HOLD_S, MOST_HOLD_S, PASS_S = 90, 300, 60
# Takes a fraction of a second in a browser, and a few hundredths for the simulated buyers.
PROOF_COST = 120
# More demo sales than one data directory will ever have.
LISTED_MAX = 10_000

_MARK = "demo"
_PREFIX = "drop-"


class Drop(Struct, frozen=True):
    sale_id: str
    units: int


@contextmanager
def claimed_directory(settings: Settings) -> Iterator[None]:
    """A demo hands out play money, so it runs only in a ledger that was created for it. Only one demo can run at a
    time, because the next one would close the running one's drop."""
    claim_directory(settings)
    with (settings.data / _MARK).open("rb") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"A demo already runs in {settings.data}. Stop it, or start this one with another --data directory."
            ) from None
        yield


def claim_directory(settings: Settings) -> None:
    mark, ledger = settings.data / _MARK, database_file(settings)
    if not settings.is_embedded:
        raise SettingsError("the demo runs on a SQLite file of its own: unset HOLDFAST_DATABASE_URL")
    if ledger.exists() and not mark.exists():
        raise SettingsError(
            f"{ledger} was not made by `holdfast demo`, which gives its visitors money; "
            "choose a directory of its own with --data, as in: holdfast demo --data demo-data"
        )
    make_private_directory(settings.data)
    Path(mark).touch()


async def prepare(settings: Settings, units: int) -> Drop:
    """Changes nothing while a server is using the directory."""
    lock = ServerLock(database_file(settings), "server").acquire()
    try:
        return await _prepare(settings, units)
    finally:
        lock.release()


async def _prepare(settings: Settings, units: int) -> Drop:
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        operations = build_sale_operations(settings, database, engine)
        await _make_demo(engine.gate, database, operations)
        await _close_earlier_drops(database, operations)
        sale_id = await _next_id(database)
        await operations.create(_drop(sale_id, units))
        return Drop(sale_id, units)


async def _make_demo(gate: Gate, database: Database, operations: SaleOperations) -> None:
    """Creates the pool and sale that the README uses, unless they exist."""
    await gate.apply(DEMO, [Provision(DEMO_UNITS, Rules(), only_if_missing=True)])
    if DEMO not in await _sale_ids(database):
        await operations.create(_demo())


def _demo() -> Sale:
    return Sale(
        sale_id=DEMO,
        sku_id="demo-drop",
        name="Demo drop",
        price_amount=4_999,
        currency=CURRENCY,
        loaded_units=DEMO_UNITS,
        starts_at=int(time() * 1000),
        checkout=Checkout.CART,
        payment=PaymentKind.WALLET,
    )


def _drop(sale_id: str, units: int) -> Sale:
    return Sale(
        sale_id=sale_id,
        sku_id=sale_id,
        name="Tidewater No. 7",
        description=(
            f"A stoneware vessel, thrown by hand and glazed in the colours of the tide. {units} were made. "
            "Each is numbered, none will be made again."
        ),
        image_url="/assets/store/tidewater.svg",
        price_amount=PRICE,
        currency=CURRENCY,
        loaded_units=units,
        starts_at=int((time() + OPENS_IN_S) * 1000),
        checkout=Checkout.CART,
        payment=PaymentKind.SANDBOX,
        hold_seconds=HOLD_S,
        max_hold_seconds=MOST_HOLD_S,
        room=Room(RoomMode.FIFO, max(1, round(units / SELLS_IN_S)), PASS_S),
        proof_of_work=ProofOfWork(PROOF_COST),
    )


async def _close_earlier_drops(database: Database, operations: SaleOperations) -> None:
    for sale in await _sales(database):
        if sale.sale_id.startswith(_PREFIX) and sale.state is not SaleState.CLOSED:
            await operations.close(sale.sale_id)


async def _next_id(database: Database) -> str:
    taken = await _sale_ids(database)
    names: Iterator[str] = (f"{_PREFIX}{number}" for number in count(1))
    return next(name for name in names if name not in taken)


async def _sale_ids(database: Database) -> set[str]:
    return {sale.sale_id for sale in await _sales(database)}


async def _sales(database: Database) -> list[Sale]:
    found, _ = await database.read(lambda c: list_sales(c, limit=LISTED_MAX, starting_after=None))
    return found
