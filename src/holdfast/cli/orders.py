"""`holdfast orders`."""

from typing import Annotated, Any
from uuid import uuid4

import typer

from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.money import After, Limit, run_cashier
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, complain, examples, print_facts, print_json, print_table
from holdfast.cli.times import moment
from holdfast.domain.sale import Order, in_words
from holdfast.http.money_schemas import refund_body
from holdfast.http.order_schemas import order_body
from holdfast.ledger.refunds import RefundProblem, RefundView, Wanted
from holdfast.ledger.sale_lists import list_orders
from holdfast.ledger.sales import find_order

app = typer.Typer(
    help="Look at orders, and give money back.",
    no_args_is_help=True,
    epilog=examples("holdfast orders list --sale drop", "holdfast orders refund ord_0192… --restock"),
)

OrderId = Annotated[str, typer.Argument(help="As answered: ord_0192…", metavar="ORDER_ID")]


@app.command("list", epilog=examples("holdfast orders list --sale drop", "holdfast orders list --to-source"))
def list_all(
    sale: Annotated[str | None, typer.Option(help="Only of this sale.", metavar="SALE")] = None,
    buyer: Annotated[str | None, typer.Option(help="Only of this buyer.", metavar="BUYER")] = None,
    to_source: Annotated[bool, typer.Option("--to-source", help="Only those whose units have to be found.")] = False,
    limit: Limit = 20,
    after: After = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List orders, newest first."""
    settings = settings_from(data)
    wanted: dict[str, Any] = {"limit": limit, "sale_id": sale, "buyer_id": buyer, "starting_after": after}
    found, has_more = (
        ([], False)
        if is_new(settings)
        else run(settings, lambda db: db.read(lambda c: list_orders(c, to_source=to_source, **wanted)))
    )
    if as_json:
        print_json({"data": [order_body(order) for order in found], "has_more": has_more})
        return
    if not found:
        typer.echo(f"There is no such order in {shown_url(settings)}.")
        return
    columns = ["order id", "sale id", "buyer", "units", "amount", "status", "to find"]
    print_table(columns, [_row(order) for order in found], folded="buyer")
    if has_more:
        typer.echo(f"There are more: --after {found[-1].order_id}")


def _row(order: Order) -> tuple[object, ...]:
    amount = in_words(order.amount, order.currency)
    to_find = order.units_to_source or None
    return order.order_id, order.sale_id, order.buyer_id, order.quantity, amount, str(order.status), to_find


@app.command("show", epilog=examples("holdfast orders show ord_0192…"))
def show(order_id: OrderId, data: Data = None, as_json: AsJson = False) -> None:
    """Show an order."""
    settings = settings_from(data)
    order = None if is_new(settings) else run(settings, lambda db: db.read(lambda c: find_order(c, order_id)))
    if order is None:
        complain(f"there is no order {order_id!r} in {shown_url(settings)}", "List them with: holdfast orders list")
        raise typer.Exit(1)
    if as_json:
        print_json(order_body(order))
        return
    print_facts(
        {
            "order": order.order_id,
            "reservation": order.reservation_id,
            "sale id": order.sale_id,
            "buyer": order.buyer_id,
            "units": order.quantity,
            "to find": order.units_to_source or None,
            "amount": in_words(order.amount, order.currency),
            "refunded": in_words(order.refunded_amount, order.currency),
            "paid by": str(order.payment),
            "status": str(order.status),
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
    amount: Annotated[int | None, typer.Option(help="In cents or the like; default: all.", min=1, metavar="N")] = None,
    restock: Annotated[bool, typer.Option("--restock", help="The units are for sale again.")] = False,
    key: Annotated[str | None, typer.Option(help="Asked again with it, it is done once.", metavar="KEY")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Give back the money of an order, or part of it.

    Of an order that was paid outside, this only records that the money went back.
    """
    settings, wanted = settings_from(data), Wanted(order_id, key or f"cli-{uuid4().hex}", amount, restock)
    if is_new(settings):
        complain(f"there is no order in {shown_url(settings)} yet")
        raise typer.Exit(1)
    try:
        done = run_cashier(settings, lambda cashier: cashier.refunder.request(wanted))
    except RefundProblem as problem:
        complain(str(problem))
        raise typer.Exit(1) from problem
    if as_json:
        print_json(refund_body(done))
    else:
        typer.echo(_told(done))
    if done.state == "parked":
        complain("the refund is parked: see holdfast parked list")
        raise typer.Exit(1)


def _told(done: RefundView) -> str:
    how = {"done": "has gone back", "parked": "is parked"}.get(done.state, "is on its way back")
    return f"{in_words(done.amount, done.currency)} of {done.order_id} {how} ({done.refund_id})."
