"""`holdfast orders`."""

import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO
from uuid import uuid4

import typer
from msgspec import json, to_builtins

from holdfast.cli.approval import approved
from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.money import After, Limit, run_payments
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import (
    AsJson,
    examples,
    fail,
    print_either,
    print_facts,
    print_json,
    print_table,
    show_progress,
)
from holdfast.cli.times import minute, moment
from holdfast.domain.sale.sale import Order, OrderStatus, in_words, order_number_of
from holdfast.errors import SettingsError
from holdfast.http.contract.decoding import read_as
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.money import FulfilIn, OrderOut, RefundOut
from holdfast.ledger.engine.database import Database
from holdfast.ledger.money.refunds import RefundProblem, RefundView, Wanted
from holdfast.ledger.sales.fulfilment import NotFulfilled
from holdfast.ledger.sales.fulfilment import fulfil as fulfil_order
from holdfast.ledger.sales.sale_lists import list_orders
from holdfast.ledger.sales.sales import find_order

app = typer.Typer(
    help="List, export, fulfil and refund orders.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast orders list --sale drop",
        "holdfast orders export --csv --sale drop --out drop.csv",
        "holdfast orders fulfil ord_0192… --tracking 00340434161094042557",
        "holdfast orders refund ord_0192… --restock",
    ),
)

OrderId = Annotated[str, typer.Argument(help="The order ID, such as ord_0192…", metavar="ORDER_ID")]

OfSale = Annotated[str | None, typer.Option("--sale", help="Only this sale.", metavar="SALE")]
OfBuyer = Annotated[str | None, typer.Option("--buyer", help="Only this buyer.", metavar="BUYER")]
InStatus = Annotated[
    OrderStatus | None,
    typer.Option("--status", help=f"Only orders that are {', '.join(OrderStatus)}.", metavar="STATUS"),
]
# Read at once, so that an export of a million orders holds no transaction for long.
PAGE = 1_000


@app.command("list", epilog=examples("holdfast orders list --sale drop", "holdfast orders list --number 7K3MQX2D9F4T"))
def list_all(
    sale: OfSale = None,
    buyer: OfBuyer = None,
    status: InStatus = None,
    number: Annotated[
        str | None, typer.Option("--number", help="The order with this number.", metavar="NUMBER")
    ] = None,
    to_source: Annotated[bool, typer.Option("--to-source", help="Only orders with units still to be sourced.")] = False,
    limit: Limit = 20,
    after: After = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List orders, newest first."""
    settings = settings_from(data)
    wanted: dict[str, Any] = {
        "limit": limit,
        "sale_id": sale,
        "buyer_id": buyer,
        "status": status,
        "starting_after": after,
        "number": number,
    }
    found, has_more = (
        ([], False)
        if is_new(settings)
        else run(settings, lambda db: db.read(lambda c: list_orders(c, to_source=to_source, **wanted)))
    )
    if as_json:
        print_json({"data": to_builtins([OrderOut.of(order) for order in found]), "has_more": has_more})
        return
    if not found:
        typer.echo(f"No matching orders in {shown_url(settings)}.")
        return
    columns = ["order id", "number", "created", "sale id", "buyer", "units", "amount", "status"]
    if to_source:
        columns.append("to source")
    print_table(columns, [_row(order)[: len(columns)] for order in found], folded="buyer")
    if has_more:
        typer.echo(f"More results: --after {found[-1].order_id}")


def _row(order: Order) -> tuple[object, ...]:
    return (
        order.order_id,
        order_number_of(order.reservation_id),
        minute(order.created_at),
        order.sale_id,
        order.buyer_id,
        order.quantity,
        in_words(order.amount, order.currency),
        str(order.status),
        order.units_to_source,
    )


@app.command(
    "export",
    epilog=examples(
        "holdfast orders export --csv > orders.csv",
        "holdfast orders export --csv --status confirmed --out to-ship.csv",
        "holdfast orders export --jsonl --sale drop | jq -s 'map(.amount) | add'",
    ),
)
def export(
    sale: OfSale = None,
    buyer: OfBuyer = None,
    status: InStatus = None,
    out: Annotated[Path | None, typer.Option(help="Write into this file; default: stdout.", metavar="FILE")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV, with a line of column names; the default.")] = False,
    as_lines: Annotated[bool, typer.Option("--jsonl", help="As JSON, one object per line.")] = False,
    data: Data = None,
) -> None:
    """Export all matching orders, newest first."""
    if as_csv and as_lines:
        raise SettingsError("choose --csv or --jsonl")
    settings = settings_from(data)
    wanted: dict[str, Any] = {"sale_id": sale, "buyer_id": buyer, "status": status}

    async def copy(database: Database) -> int:
        with _opened(out) as file:
            writer = _JsonLines(file) if as_lines else _Spreadsheet(file)
            return await _copy_orders(database, writer, wanted)

    if is_new(settings):
        fail(f"there are no orders in {shown_url(settings)} yet")
    number = run(settings, copy)
    if out is not None:
        typer.echo(f"{number:,} {'order' if number == 1 else 'orders'} written to {out}.", err=True)


class _JsonLines:
    """Writes rows as a CSV writer would; the first row has the names."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def writerow(self, _names: Iterable[Any]) -> None:
        """The objects have the names."""

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        for row in rows:
            self._file.write(json.encode(dict(zip(_COLUMNS, row, strict=True))).decode() + "\n")


class _Spreadsheet:
    """CSV. A cell that a spreadsheet would take for a formula gets an apostrophe: buyers choose some of the text."""

    def __init__(self, file: TextIO) -> None:
        self._writer = csv.writer(file, lineterminator="\n")

    def writerow(self, row: Iterable[Any]) -> None:
        self._writer.writerow([f"'{cell}" if isinstance(cell, str) and cell[:1] in _FORMULA else cell for cell in row])

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        for row in rows:
            self.writerow(row)


_COLUMNS = OrderOut.__struct_fields__
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


async def _copy_orders(database: Database, writer: Any, wanted: dict[str, Any]) -> int:
    writer.writerow(_COLUMNS)
    number, after, has_more = 0, None, True
    while has_more:
        page, has_more = await database.read(lambda c: list_orders(c, limit=PAGE, starting_after=after, **wanted))  # noqa: B023 - awaited at once
        writer.writerows(to_builtins(OrderOut.of(order)).values() for order in page)
        number, after = number + len(page), page[-1].order_id if page else None
        show_progress(f"{number:,} orders")
    show_progress("")
    return number


@contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    with out.open("w", encoding="utf-8", newline="") as file:
        yield file


@app.command(
    "fulfil",
    epilog=examples(
        "holdfast orders fulfil ord_0192…", "holdfast orders fulfil ord_0192… --tracking 00340434161094042557"
    ),
)
def fulfil(
    order_id: OrderId,
    tracking: Annotated[str | None, typer.Option(help="The tracking number.", metavar="NUMBER")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Mark a paid order as fulfilled. Repeating it with the same tracking number changes nothing."""
    settings = settings_from(data)
    try:
        read_as(FulfilIn, {"tracking": tracking})
    except Problem as problem:
        raise SettingsError(problem.detail) from problem

    async def work(database: Database) -> Order | None:
        return await database.write(lambda c: fulfil_order(c, order_id, tracking, database.now_ms(c)))

    try:
        order = None if is_new(settings) else run(settings, work)
    except NotFulfilled as refused:
        fail(f"order {order_id} is {refused.order.status}; only confirmed orders can be fulfilled")
    if order is None:
        fail(f"there is no order {order_id!r} in {shown_url(settings)}", "List them with: holdfast orders list")
    tracked = f", tracking number {order.tracking}" if order.tracking else ""
    print_either(as_json, to_builtins(OrderOut.of(order)), f"{order.order_id} is fulfilled{tracked}.")


@app.command("show", epilog=examples("holdfast orders show ord_0192…"))
def show(order_id: OrderId, data: Data = None, as_json: AsJson = False) -> None:
    """Show an order."""
    settings = settings_from(data)
    order = None if is_new(settings) else run(settings, lambda db: db.read(lambda c: find_order(c, order_id)))
    if order is None:
        fail(f"there is no order {order_id!r} in {shown_url(settings)}", "List them with: holdfast orders list")
    if as_json:
        print_json(to_builtins(OrderOut.of(order)))
        return
    print_facts(
        {
            "order": order.order_id,
            "number": order_number_of(order.reservation_id),
            "reservation": order.reservation_id,
            "sale id": order.sale_id,
            "buyer": order.buyer_id,
            "units": order.quantity,
            "to source": order.units_to_source or None,
            "amount": in_words(order.amount, order.currency),
            "refunded": in_words(order.refunded_amount, order.currency),
            "paid by": str(order.payment),
            "status": str(order.status),
            "tracking": order.tracking,
            "created": moment(order.created_at),
        }
    )


@app.command(
    "refund",
    epilog=examples(
        "holdfast orders refund ord_0192…",
        "holdfast orders refund ord_0192… --amount 500 --key complaint-7",
    ),
)
def refund(
    order_id: OrderId,
    amount: Annotated[
        int | None, typer.Option(help="In the smallest currency unit (cents); default: all.", min=1, metavar="N")
    ] = None,
    restock: Annotated[bool, typer.Option("--restock", help="Return the units to stock.")] = False,
    key: Annotated[str | None, typer.Option(help="Idempotency key.", metavar="KEY")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Refund an order, in full or in part.

    For an order paid externally this only records the refund.
    """
    settings, wanted = settings_from(data), Wanted(order_id, key or f"cli-{uuid4().hex}", amount, restock)
    if is_new(settings):
        fail(f"there are no orders in {shown_url(settings)} yet")
    body = {"amount": amount, "restock": restock}
    try:
        with approved(settings, "refund_order", order_id, body, wanted.key):
            done = run_payments(settings, lambda payments: payments.refunder.request(wanted))
    except RefundProblem as problem:
        fail(str(problem))
    if as_json:
        print_json(to_builtins(RefundOut.of(done)))
    else:
        typer.echo(_told(done))
    if done.state == "parked":
        fail("the refund is parked: see holdfast parked list")


def _told(done: RefundView) -> str:
    how = {"done": "refunded", "parked": "parked"}.get(done.state, "refund in progress")
    return f"{done.order_id}: {in_words(done.amount, done.currency)} {how} ({done.refund_id})."
