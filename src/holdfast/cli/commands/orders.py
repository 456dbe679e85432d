"""`holdfast orders`."""

from typing import Annotated, Any
from uuid import uuid4

import typer
from msgspec import to_builtins

from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.money import After, Limit, run_payments
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_facts, print_json, print_table
from holdfast.cli.times import moment
from holdfast.domain.sale.sale import Order, in_words
from holdfast.http.contract.schemas.money import OrderOut, RefundOut
from holdfast.ledger.money.refunds import RefundProblem, RefundView, Wanted
from holdfast.ledger.sales.sale_lists import list_orders
from holdfast.ledger.sales.sales import find_order

app = typer.Typer(
    help="Show and refund orders.",
    no_args_is_help=True,
    epilog=examples("holdfast orders list --sale drop", "holdfast orders refund ord_0192… --restock"),
)

OrderId = Annotated[str, typer.Argument(help="The order ID, such as ord_0192…", metavar="ORDER_ID")]


@app.command("list", epilog=examples("holdfast orders list --sale drop", "holdfast orders list --to-source"))
def list_all(
    sale: Annotated[str | None, typer.Option(help="Only this sale.", metavar="SALE")] = None,
    buyer: Annotated[str | None, typer.Option(help="Only this buyer.", metavar="BUYER")] = None,
    to_source: Annotated[bool, typer.Option("--to-source", help="Only orders with units still to be sourced.")] = False,
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
        print_json({"data": to_builtins([OrderOut.of(order) for order in found]), "has_more": has_more})
        return
    if not found:
        typer.echo(f"No matching orders in {shown_url(settings)}.")
        return
    columns = ["order id", "sale id", "buyer", "units", "amount", "status", "to source"]
    print_table(columns, [_row(order) for order in found], folded="buyer")
    if has_more:
        typer.echo(f"More results: --after {found[-1].order_id}")


def _row(order: Order) -> tuple[object, ...]:
    amount = in_words(order.amount, order.currency)
    to_source = order.units_to_source or None
    return order.order_id, order.sale_id, order.buyer_id, order.quantity, amount, str(order.status), to_source


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
            "reservation": order.reservation_id,
            "sale id": order.sale_id,
            "buyer": order.buyer_id,
            "units": order.quantity,
            "to source": order.units_to_source or None,
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
    try:
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
