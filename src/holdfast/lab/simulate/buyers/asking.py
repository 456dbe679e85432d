"""Buyers' requests, made in one of two ways: to a process's use cases, or to its HTTP application."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.checkout.purchase import Wanted
from holdfast.lab.simulate.buyers.client import Client
from holdfast.lab.simulate.process import Process
from holdfast.lab.simulate.scenario import SALE_ID
from holdfast.ledger.money.payment_notes import Method

# Runs on the host of the process.
Handle = Callable[[Process, Client], Awaitable[Any]]


class Direct:
    """Calls the use cases, without HTTP."""

    def purchase(self, wanted: Wanted) -> Handle:
        return lambda process, client: process.running.purchase_units.purchase(SALE_ID, wanted, client.wait)

    def extend(self, id_: str, buyer_id: str, seconds: int) -> Handle:
        return lambda process, client: process.running.holds.extend(id_, buyer_id, seconds * 1_000, client.wait)

    def cancel(self, id_: str, buyer_id: str) -> Handle:
        return lambda process, client: process.running.holds.cancel(id_, buyer_id, client.wait)

    def pay(self, id_: str, buyer_id: str, method: Method | None) -> Handle:
        return lambda process, client: process.running.holds.pay(id_, buyer_id, method, client.wait)

    def confirm(self, id_: str) -> Handle:
        return lambda process, client: process.running.holds.confirm(id_, client.wait)

    def look(self, id_: str, buyer_id: str) -> Handle:
        return lambda process, _client: process.running.holds.look(id_, buyer_id)
