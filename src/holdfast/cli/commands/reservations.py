"""`holdfast reservations`."""

from typing import Annotated

import typer
from msgspec import to_builtins

from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, examples, fail, print_facts, print_json, print_table
from holdfast.cli.times import moment
from holdfast.domain.stock.reservation import Reservation
from holdfast.domain.stock.state import Event
from holdfast.http.contract.schemas.inventory import EventOut, ReservationOut
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.history import history
from holdfast.ledger.stock.queries import find_reservation

app = typer.Typer(
    help="Show reservations.", no_args_is_help=True, epilog=examples("holdfast reservations show rsv_0192…_demo")
)


@app.command("show", epilog=examples("holdfast reservations show rsv_0192…_demo"))
def show(
    reservation_id: Annotated[
        str, typer.Argument(help="The reservation ID, such as rsv_0192…_demo.", metavar="RESERVATION_ID")
    ],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show a reservation and its history."""
    settings = settings_from(data)
    found = None if is_new(settings) else run(settings, lambda database: _find(database, reservation_id))
    if found is None:
        fail(f"there is no reservation {reservation_id!r} in {shown_url(settings)}")
    reservation, events = found
    if as_json:
        print_json(
            to_builtins(ReservationOut.of(reservation)) | {"events": to_builtins([EventOut.of(e) for e in events])}
        )
    else:
        _print(reservation, events)


def _print(reservation: Reservation, events: list[Event]) -> None:
    print_facts(
        {
            "reservation": reservation.reservation_id,
            "sku id": reservation.sku_id,
            "owner": reservation.owner_id,
            "units": reservation.quantity,
            "status": str(reservation.status),
            "created": moment(reservation.created_at),
            "deadline": moment(reservation.expires_at),
        }
    )
    typer.echo()
    rows = [(moment(e.at), e.type, e.quantity, moment(e.expires_at)) for e in events]
    print_table(["at (UTC)", "what happened", "units", "deadline (UTC)"], rows)


async def _find(database: Database, reservation_id: str) -> tuple[Reservation, list[Event]] | None:
    reservation = await database.read(lambda c: find_reservation(c, reservation_id, database.now_ms(c)))
    if reservation is None:
        return None
    return reservation, await database.read(lambda c: history(c, reservation_id))
