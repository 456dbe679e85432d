"""`holdfast reservations`."""

from typing import Annotated

import typer

from holdfast.cli.ledger import is_new, run, shown_url
from holdfast.cli.options import Data, settings_from
from holdfast.cli.output import AsJson, complain, examples, print_facts, print_json, print_table
from holdfast.cli.times import moment
from holdfast.domain.reservation import Reservation
from holdfast.domain.state import Event
from holdfast.http.schemas import event_body, reservation_body
from holdfast.ledger.database import Database
from holdfast.ledger.queries import find_reservation, history

app = typer.Typer(
    help="Look at reservations.", no_args_is_help=True, epilog=examples("holdfast reservations show rsv_0192…_demo")
)


@app.command("show", epilog=examples("holdfast reservations show rsv_0192…_demo"))
def show(
    reservation_id: Annotated[
        str, typer.Argument(help="As answered by reserve: rsv_0192…_demo", metavar="RESERVATION_ID")
    ],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show a reservation and everything that happened to it."""
    settings = settings_from(data)
    found = None if is_new(settings) else run(settings, lambda database: _find(database, reservation_id))
    if found is None:
        complain(f"there is no reservation {reservation_id!r} in {shown_url(settings)}")
        raise typer.Exit(1)
    reservation, events = found
    if as_json:
        print_json(reservation_body(reservation) | {"events": [event_body(event) for event in events]})
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
