"""`holdfast sales`."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer
from msgspec import Struct, to_builtins
from sqlalchemy import Connection

from holdfast.bootstrap.services import build_sale_operations
from holdfast.cli.approval import approved
from holdfast.cli.commands.pools import checked_id
from holdfast.cli.commands.selling import line
from holdfast.cli.commands.selling.terms import PassSeconds, Rate, Room, StartsAt, checked_as, room_of, start_of
from holdfast.cli.ledger import is_new, run_engine, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_facts, print_json, print_table
from holdfast.cli.report.gather import gather
from holdfast.cli.report.summary import body_of, print_summary
from holdfast.cli.times import moment
from holdfast.domain.sale.sale import MAX_AMOUNT, RoomMode, Sale, in_words
from holdfast.domain.stock.limits import MAX_HOLD_S, MAX_QUANTITY, MAX_TOTAL_UNITS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool
from holdfast.errors import EngineError, SettingsError
from holdfast.gate.engine import Engine
from holdfast.http.contract.refusals import sale_refusal
from holdfast.http.contract.schemas.sales import OperatorSaleOut, SaleIn
from holdfast.ledger.engine.database import Database
from holdfast.ledger.sales.sale_lists import list_sales
from holdfast.ledger.sales.sales import find_sale
from holdfast.sales.operations import Contradiction, Refusal, SaleOperations
from holdfast.sales.restocking import Unrestocked
from holdfast.settings import Settings

app = typer.Typer(
    help="Create, show and control sales.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast sales create drop --units 500 --price 4999 --currency EUR \\",
        "    --payment wallet",
        "holdfast sales list",
        "holdfast sales pause drop",
    ),
)

app.add_typer(line.app)

LIST_LIMIT = 10_000
# A fraction of a second on a phone.
PROOF_COST = 200
_HINTS = {
    Refusal.NOT_FOUND: "List them with: holdfast sales list",
    Refusal.EXISTS: "Choose another ID; --if-missing keeps that sale unchanged.",
}
T = TypeVar("T")


def _sale_id(text: str) -> str:
    return checked_id(text, "sale ID")


SaleName = Annotated[str, typer.Argument(help="The sale ID.", metavar="SALE", callback=_sale_id)]


class Access(Struct, frozen=True):
    """What a command needs."""

    database: Database
    engine: Engine
    operations: SaleOperations

    async def body(self, sale: Sale, pool: Pool | None = None) -> dict[str, Any]:
        now = await self.database.read(self.database.now_ms)
        shown: dict[str, Any] = to_builtins(OperatorSaleOut.of_pool(sale, pool or await self._pool_of(sale), now))
        return shown

    async def _pool_of(self, sale: Sale) -> Pool | None:
        view = (await self.engine.look_at([sale.sku_id])).get(sale.sku_id)
        return None if view is None or isinstance(view, EngineError) else view.pool


def _run(settings: Settings, work: Callable[[Access], Awaitable[T]]) -> T:
    return run_engine(
        settings,
        lambda database, engine: work(Access(database, engine, build_sale_operations(settings, database, engine))),
    )


@app.command("list", epilog=examples("holdfast sales list", "holdfast sales list --json | jq '.data[].sale_id'"))
def list_all(data: Data = None, as_json: AsJson = False) -> None:
    """List all sales with their stock."""
    settings = settings_from(data)

    async def bodies(access: Access) -> list[dict[str, Any]]:
        found, _ = await access.database.read(lambda c: list_sales(c, limit=LIST_LIMIT, starting_after=None))
        return [await access.body(sale) for sale in found]

    found = [] if is_new(settings) else _run(settings, bodies)
    if as_json:
        print_json({"data": found})
    elif found:
        _print(found)
    else:
        typer.echo(f"No sales in {shown_url(settings)} yet.")
        typer.echo(
            "Create one with: holdfast sales create SALE --units 500 --price 4999 --currency EUR --payment wallet"
        )


@app.command("show", epilog=examples("holdfast sales show drop", "holdfast sales show drop --json"))
def show(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """Show one sale: its stock, its rules and its waiting room."""
    settings = settings_from(data)

    async def look(access: Access) -> tuple[dict[str, Any], dict[str, object]] | None:
        def find(connection: Connection) -> tuple[Sale, dict[str, object]] | None:
            sale = find_sale(connection, sale_id)
            return None if sale is None else (sale, _rules_of(connection, sale))

        found = await access.database.read(find)
        return None if found is None else (await access.body(found[0]), found[1])

    shown = None if is_new(settings) else _run(settings, look)
    _print_result(Refusal.NOT_FOUND if shown is None else shown[0], as_json)
    if shown is not None and not as_json:
        typer.echo("")
        print_facts(shown[1])


def _rules_of(connection: Connection, sale: Sale) -> dict[str, object]:
    state = line.line_of(connection, sale)
    limits = {
        f"{sale.per_buyer_limit} per buyer": sale.per_buyer_limit is not None,
        f"tier {sale.required_tier} and above": bool(sale.required_tier),
        "proof of work": sale.proof_of_work is not None,
    }
    return {
        "payment": f"{sale.payment}, {sale.checkout}, held for {sale.hold_seconds} s",
        "limits": ", ".join(limit for limit, is_set in limits.items() if is_set) or "none",
        **({"room": "off"} if state is None else line.room_facts(sale, state)),
    }


@app.command(
    "create",
    epilog=examples(
        "holdfast sales create drop --units 500 --price 4999 --currency EUR \\",
        "    --payment wallet",
        "holdfast sales create drop --sku sneaker-42 --units 500 --price 0 \\",
        "    --currency EUR --payment external --starts-at 2030-01-31T18:00:00Z",
        "holdfast sales create drop --units 500 --price 4999 --currency EUR \\",
        "    --payment wallet --room fifo --rate 50 --proof-of-work",
    ),
)
def create(
    sale_id: SaleName,
    units: Annotated[int, typer.Option(help="Units to sell.", min=0, max=MAX_TOTAL_UNITS, metavar="N")],
    price: Annotated[
        int,
        typer.Option(help="Price per unit, in the smallest currency unit (cents).", min=0, max=MAX_AMOUNT, metavar="N"),
    ],
    currency: Annotated[str, typer.Option(help="ISO 4217 code, such as EUR.", metavar="CODE")],
    payment: Annotated[str, typer.Option(help="wallet, sandbox, stripe or external.", metavar="KIND")],
    sku: Annotated[str | None, typer.Option(help="The SKU ID; default: the sale ID.", metavar="SKU")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name shown to buyers; default: the sale ID.", metavar="NAME")
    ] = None,
    starts_at: StartsAt = None,
    ends_at: Annotated[
        str | None, typer.Option(help="Such as 2030-02-28T18:00:00Z; default: open until closed.", metavar="TIME")
    ] = None,
    checkout: Annotated[str, typer.Option(help="cart or instant.", metavar="KIND")] = "cart",
    per_buyer_limit: Annotated[
        int, typer.Option(help="Maximum units per buyer.", min=1, max=MAX_QUANTITY, metavar="N")
    ] = 1,
    hold_seconds: Annotated[
        int, typer.Option(help="Seconds that units are held.", min=1, max=MAX_HOLD_S, metavar="N")
    ] = 300,
    room: Room = RoomMode.OFF,
    rate: Rate = None,
    pass_seconds: PassSeconds = None,
    proof_of_work: Annotated[
        bool, typer.Option("--proof-of-work", help="Require proof of work to join the room, or to buy.")
    ] = False,
    proof_cost: Annotated[
        int, typer.Option(help="Maximum attempts of the proof of work.", min=1, max=10**9, metavar="N")
    ] = PROOF_COST,
    drop: Annotated[str | None, typer.Option(help="The drop it is part of, with its room.", metavar="DROP")] = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Keep an existing sale unchanged.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create a sale. Its pool is loaded and checked now and opens at the start time."""
    settings = settings_from(data)
    given = checked_as(
        SaleIn,
        sale_id=sale_id,
        sku_id=sku or sale_id,
        name=name or sale_id,
        total_units=units,
        price={"amount": price, "currency": currency},
        starts_at=start_of(starts_at),
        ends_at=ends_at,
        checkout=checkout,
        payment=payment,
        per_buyer_limit=per_buyer_limit,
        hold_seconds=hold_seconds,
        room=room_of(room, rate, pass_seconds),
        proof_of_work={"cost": proof_cost} if proof_of_work else None,
        drop_id=drop,
    )

    async def body(access: Access) -> dict[str, Any] | Refusal | Contradiction:
        if if_missing:
            found = await access.database.read(lambda c: find_sale(c, sale_id))
            if found is not None:
                typer.echo(f"Sale {sale_id} already exists and was not changed.", err=True)
                return await access.body(found)
        created = await access.operations.create(given.sale())
        return await access.body(created.sale) if not isinstance(created, Refusal | Contradiction) else created

    _print_result(_run(settings, body), as_json)


@app.command("pause", epilog=examples("holdfast sales pause drop"))
def pause(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """Pause new reservations."""
    _change(data, as_json, lambda operations: operations.pause(sale_id, paused=True))


@app.command("resume", epilog=examples("holdfast sales resume drop"))
def resume(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """Resume a paused sale."""
    _change(data, as_json, lambda operations: operations.pause(sale_id, paused=False))


@app.command("close", epilog=examples("holdfast sales close drop"))
def close(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """End a sale permanently. Existing holds may still be paid."""
    with approved(settings_from(data), "close_sale", sale_id):
        _change(data, as_json, lambda operations: operations.close(sale_id))


@app.command("report", epilog=examples("holdfast sales report drop", "holdfast sales report drop --json"))
def report(sale_id: SaleName, data: Data = None, as_json: AsJson = False) -> None:
    """Show how a sale went. For a page to print or send: holdfast report."""
    settings = settings_from(data)
    if is_new(settings):
        _print_result(Refusal.NOT_FOUND, as_json)
    proven = gather(settings, sale_id)
    if as_json:
        print_json(body_of(proven))
    else:
        print_summary(proven)
    raise typer.Exit(0 if proven.proof.ok else 1)


@app.command("restock", epilog=examples("holdfast sales restock drop --units 100"))
def restock(
    sale_id: SaleName,
    units: Annotated[int, typer.Option(help="Units to add; a negative number removes available units.", metavar="N")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Add units to a sale, or remove available ones."""
    if abs(units) > MAX_TOTAL_UNITS:
        raise SettingsError(f"a pool has at most {MAX_TOTAL_UNITS:,} units")

    async def body(access: Access) -> dict[str, Any] | Refusal | str:
        answer = await access.operations.restock(sale_id, units)
        assert not isinstance(answer, Unrestocked), "no key was given"
        if isinstance(answer, Refusal):
            return answer
        sale, verdict = answer
        if verdict.outcome is Outcome.INSUFFICIENT:
            return f"only {verdict.available} units are available; held and sold units cannot be removed"
        if not verdict.outcome.is_success:
            return f"the pool refused: {verdict.outcome}"
        return await access.body(sale, verdict.pool)

    _print_result(_run(settings_from(data), body), as_json)


def _change(
    data: Any, as_json: bool, change: Callable[[SaleOperations], Awaitable[Sale | Refusal | Contradiction]]
) -> None:
    async def body(access: Access) -> dict[str, Any] | Refusal | Contradiction:
        answer = await change(access.operations)
        return await access.body(answer) if isinstance(answer, Sale) else answer

    _print_result(_run(settings_from(data), body), as_json)


def _print_result(answer: dict[str, Any] | Refusal | Contradiction | str, as_json: bool) -> None:
    if not isinstance(answer, dict):
        reason = sale_refusal(answer).detail if isinstance(answer, Refusal | Contradiction) else answer
        fail(reason, _HINTS.get(answer, "") if isinstance(answer, Refusal) else "")
    if as_json:
        print_json(answer)
    else:
        _print([answer])
    if answer["problem"] is not None:
        fail(f"the sale cannot open: {answer['problem']}")


def _print(bodies: list[dict[str, Any]]) -> None:
    rows = [
        (
            body["sale_id"],
            body["sku_id"],
            body["phase"] if body["problem"] is None else f"loading: {body['problem']}",
            minute_of(body["starts_at"]),
            minute_of(body["ends_at"]),
            in_words(body["price"]["amount"], body["price"]["currency"]),
            body["available"],
            body["held"],
            body["sold"],
        )
        for body in bodies
    ]
    columns = ["sale id", "sku id", "state", "starts", "ends", "price", "available", "held", "sold"]
    print_table(columns, rows, folded="sale id")


def minute_of(text: str | None) -> str | None:
    return None if text is None else (moment(int(datetime.fromisoformat(text).timestamp() * 1000)) or "")[:16]
