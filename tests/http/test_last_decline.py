"""The crowd that polls "is it paid?" is answered by the gate, whatever the ledger does."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from settle_harness import SALE

from holdfast.checkout.holds import Holds
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.errors import Unavailable
from holdfast.http.endpoints.reservations import ReservationEndpoints


class LedgerGone:
    def __init__(self) -> None:
        self.queries = 0

    async def last_decline(self, _: str) -> None:
        self.queries += 1
        raise Unavailable("the ledger is away")


@pytest.mark.parametrize(
    ("status", "attempts", "queries", "last_decline"),
    [
        (Status.SETTLING, 1, 0, {"last_decline": None}),
        (Status.SETTLING, 2, 1, {}),
        (Status.ACTIVE, 1, 1, {}),
        (Status.CONFIRMED, 2, 0, {"last_decline": None}),
    ],
)
async def test_a_reservation_is_shown_without_its_last_decline_while_the_ledger_is_away(
    status: Status, attempts: int, queries: int, last_decline: dict[str, Any]
) -> None:
    ledger, catalogue = LedgerGone(), SimpleNamespace(sale_of=lambda _: SALE)
    unused: Any = None
    holds = Holds(unused, catalogue, unused, ledger, unused)  # type: ignore[arg-type]
    engine, quotes = SimpleNamespace(catch_up=None), SimpleNamespace(prices_of=AsyncMock(return_value={}))
    absent = dict.fromkeys(("receipts", "database", "reservation_events", "reads"))
    services: Any = SimpleNamespace(holds=holds, engine=engine, quotes=quotes, **absent)
    found = Reservation("rsv_1_sneaker", SALE.sku_id, "ada", 1, status, 1, 2, attempts)
    shown = msgspec.json.decode(await ReservationEndpoints(services, unused)._with_decline(found))
    assert (shown["status"], ledger.queries) == (status, queries)
    assert {name: shown[name] for name in ("last_decline", "failure_reason") if name in shown} == last_decline
