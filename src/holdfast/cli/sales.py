"""`holdfast sales`."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from time import time
from typing import Annotated, Any, TypeVar

import typer
from msgspec import Struct
from pydantic import ValidationError
from sqlalchemy import Connection

from holdfast.bootstrap import build_office
from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, complain, examples, print_json, print_table
from holdfast.cli.pools import checked_id
from holdfast.cli.times import moment
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import MAX_TOTAL_UNITS, Pool
from holdfast.domain.reservation import MAX_QUANTITY
from holdfast.domain.sale import MAX_AMOUNT, Sale, in_words
from holdfast.engines import Engine, open_engine
from holdfast.errors import EngineError, SettingsError
from holdfast.http.invalid import from_validation
from holdfast.http.sale_problems import office_refusal
from holdfast.http.sale_schemas import SaleIn, operator_sale_body
from holdfast.http.times import rfc3339
from holdfast.ledger.database import Database
from holdfast.ledger.sale_lists import list_sales
from holdfast.ledger.sales import find_sale
from holdfast.log import set_up_logging
from holdfast.sales.office import Contradiction, Office, Refusal
from holdfast.sales.restocking import Unrestocked
from holdfast.settings import Settings

app = typer.Typer(
    help="Make sales, look at them, and change how they go on.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast sales create drop --units 500 --price 4999 --currency EUR \\",
        "    --payment wallet",
        "holdfast sales list",
        "holdfast sales pause drop",
    ),
)

LIST_LIMIT = 10_000
T = TypeVar("T")


def _sale_id(text: str) -> str:
    return checked_id(text, "sale id")


SaleName = Annotated[str, typer.Argument(help="The sale id.", metavar="SALE", callback=_sale_id)]


class Desk(Struct, frozen=True):
    """What a command works with."""

    database: Database
    engine: Engine
    office: Office

    async def body(self, sale: Sale, pool: Pool | None = None) -> dict[str, Any]:
        now = await self.database.read(self.database.now_ms)
        return operator_sale_body(sale, pool or await self._pool_of(sale), now)

    async def _pool_of(self, sale: Sale) -> Pool | None:
        view = (await self.engine.look_at([sale.sku_id])).get(sale.sku_id)
        return None if view is None or isinstance(view, EngineError) else view.pool


def _run(settings: Settings, work: Callable[[Desk], Awaitable[T]]) -> T:
    async def opened(database: Database) -> T:
        async with open_engine(settings, database) as engine:
            return await work(Desk(database, engine, build_office(settings, database, engine)))

    set_up_logging("error")
    return run(settings, opened)


@app.command("list", epilog=examples("holdfast sales list", "holdfast sales list --json | jq '.data[].sale_id'"))
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List all sales with what is left of each."""
    settings = settings_from(data)

    async def bodies(desk: Desk) -> list[dict[str, Any]]:
        found, _ = await desk.database.read(lambda c: list_sales(c, limit=LIST_LIMIT, starting_after=None))
        return [await desk.body(sale) for sale in found]

    found = [] if is_new(settings) else _run(settings, bodies)
    if as_json:
        print_json({"data": found})
    elif found:
        _print(found)
    else:
        typer.echo(f"There is no sale in {shown_url(settings)} yet.")
        typer.echo("Make one with: holdfast sales create SALE --units 500 --price 4999 --currency EUR --payment wallet")


@app.command("show", epilog=examples("holdfast sales show drop", "holdfast sales show drop --json"))
def show(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """Show one sale."""
    settings = settings_from(data)

    async def body(desk: Desk) -> dict[str, Any] | Refusal:
        def find(connection: Connection) -> Sale | None:
            return find_sale(connection, sale_id)

        sale = await desk.database.read(find)
        return Refusal.NOT_FOUND if sale is None else await desk.body(sale)

    _tell(Refusal.NOT_FOUND if is_new(settings) else _run(settings, body), as_json)


@app.command(
    "create",
    epilog=examples(
        "holdfast sales create drop --units 500 --price 4999 --currency EUR \\",
        "    --payment wallet",
        "holdfast sales create drop --sku sneaker-42 --units 500 --price 0 \\",
        "    --currency EUR --payment external --starts-at 2030-01-31T18:00:00Z",
    ),
)
def create(
    sale_id: SaleName,
    units: Annotated[int, typer.Option(help="How many there are to sell.", min=0, max=MAX_TOTAL_UNITS, metavar="N")],
    price: Annotated[int, typer.Option(help="Of one, in cents or the like.", min=0, max=MAX_AMOUNT, metavar="N")],
    currency: Annotated[str, typer.Option(help="Three capital letters.", metavar="CODE")],
    payment: Annotated[str, typer.Option(help="wallet, sandbox, stripe or external.", metavar="KIND")],
    sku: Annotated[str | None, typer.Option(help="The SKU id; default: the sale's.", metavar="SKU")] = None,
    name: Annotated[str | None, typer.Option(help="What buyers read; default: the sale id.")] = None,
    starts_at: Annotated[str | None, typer.Option(help="As in 2030-01-31T18:00:00Z; default: now.")] = None,
    ends_at: Annotated[str | None, typer.Option(help="As above; default: when it is closed.")] = None,
    checkout: Annotated[str, typer.Option(help="cart or instant.", metavar="KIND")] = "cart",
    per_buyer_limit: Annotated[
        int, typer.Option(help="Units one buyer may have.", min=1, max=MAX_QUANTITY, metavar="N")
    ] = 1,
    hold_seconds: Annotated[int, typer.Option(help="How long units are held.", min=1, max=1800, metavar="N")] = 300,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Leave a sale that exists as it is.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create a sale: its pool is loaded and checked, and opens when the sale starts."""
    settings = settings_from(data)
    given = _checked(
        sale_id=sale_id,
        sku_id=sku or sale_id,
        name=name or sale_id,
        total_units=units,
        price={"amount": price, "currency": currency},
        starts_at=starts_at or rfc3339(int(time() * 1000)),
        ends_at=ends_at,
        checkout=checkout,
        payment=payment,
        per_buyer_limit=per_buyer_limit,
        hold_seconds=hold_seconds,
    )

    async def body(desk: Desk) -> dict[str, Any] | Refusal | Contradiction:
        if if_missing:
            found = await desk.database.read(lambda c: find_sale(c, sale_id))
            if found is not None:
                typer.echo(f"Sale {sale_id} exists already and was left as it is.", err=True)
                return await desk.body(found)
        created = await desk.office.create(given.sale())
        return await desk.body(created.sale) if not isinstance(created, Refusal | Contradiction) else created

    _tell(_run(settings, body), as_json)


def _checked(**given: object) -> SaleIn:
    try:
        return SaleIn.model_validate(given)
    except ValidationError as exc:
        raise SettingsError(from_validation(exc.errors()).detail) from exc


@app.command("pause", epilog=examples("holdfast sales pause drop"))
def pause(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """Let nobody reserve for now."""
    _change(data, as_json, lambda office: office.pause(sale_id, paused=True))


@app.command("resume", epilog=examples("holdfast sales resume drop"))
def resume(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """Go on after a pause."""
    _change(data, as_json, lambda office: office.pause(sale_id, paused=False))


@app.command("close", epilog=examples("holdfast sales close drop"))
def close(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """End a sale now, for good. What is held may still be paid for."""
    _change(data, as_json, lambda office: office.close(sale_id))


@app.command("restock", epilog=examples("holdfast sales restock drop --units 100"))
def restock(
    sale_id: SaleName,
    units: Annotated[int, typer.Option(help="Units to add; a negative number takes free ones away.", metavar="N")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Add units to a sale, or take free ones away."""
    if abs(units) > MAX_TOTAL_UNITS:
        raise SettingsError(f"a pool has at most {MAX_TOTAL_UNITS:,} units")

    async def body(desk: Desk) -> dict[str, Any] | Refusal | str:
        answer = await desk.office.restock(sale_id, units)
        assert not isinstance(answer, Unrestocked), "no key was given"
        if isinstance(answer, Refusal):
            return answer
        sale, verdict = answer
        if verdict.outcome is Outcome.INSUFFICIENT:
            return f"only {verdict.available} units are free; held and sold units cannot be taken away"
        if not verdict.outcome.is_success:
            return f"the pool refused: {verdict.outcome}"
        return await desk.body(sale, verdict.pool)

    _tell(_run(settings_from(data), body), as_json)


def _change(data: Any, as_json: bool, change: Callable[[Office], Awaitable[Sale | Refusal | Contradiction]]) -> None:
    async def body(desk: Desk) -> dict[str, Any] | Refusal | Contradiction:
        answer = await change(desk.office)
        return await desk.body(answer) if isinstance(answer, Sale) else answer

    _tell(_run(settings_from(data), body), as_json)


def _tell(answer: dict[str, Any] | Refusal | Contradiction | str, as_json: bool) -> None:
    if not isinstance(answer, dict):
        reason = office_refusal(answer).detail if isinstance(answer, Refusal | Contradiction) else answer
        complain(reason, "List them with: holdfast sales list" if answer is Refusal.NOT_FOUND else "")
        raise typer.Exit(1)
    if as_json:
        print_json(answer)
    else:
        _print([answer])
    if answer["problem"] is not None:
        complain(f"the sale does not open: {answer['problem']}")
        raise typer.Exit(1)


def _print(bodies: list[dict[str, Any]]) -> None:
    rows = [
        (
            body["sale_id"],
            body["sku_id"],
            body["phase"] if body["problem"] is None else f"loading: {body['problem']}",
            _minute(body["starts_at"]),
            _minute(body["ends_at"]),
            in_words(body["price"]["amount"], body["price"]["currency"]),
            body["available"],
            body["held"],
            body["sold"],
        )
        for body in bodies
    ]
    columns = ["sale id", "sku id", "state", "starts", "ends", "price", "available", "held", "sold"]
    print_table(columns, rows, folded="sale id")


def _minute(text: str | None) -> str | None:
    return None if text is None else (moment(int(datetime.fromisoformat(text).timestamp() * 1000)) or "")[:16]
