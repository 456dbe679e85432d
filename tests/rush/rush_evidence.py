"""Evidence of a successful rush, for tests to tamper with; and scenarios that take seconds, not minutes."""

from msgspec.structs import replace

from holdfast.lab.rush.buyers.actions import Lottery
from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.rush.buyers.record import BuyerRecord, Ending, Grant, QueuePlace
from holdfast.lab.rush.checks.invariants import Evidence
from holdfast.lab.rush.server.ledger_snapshot import Charge, LedgerSnapshot, Payment, SaleSnapshot
from holdfast.lab.rush.server.sale_admin import OrderRow, QueueStatus, ReservationRow, Stock
from holdfast.lab.rush.server.stock_monitor import Sample
from holdfast.lab.scenarios.scenario import BotKind, Scenario, load_scenario

PRICE, LIMIT, UNITS = 100, 1, 3
MADE = "2026-11-16T12:00:00.000Z"
OFFER = Offer("sale", "sku", UNITS, "cart", "sandbox", PRICE, "EUR", "fifo", False, LIMIT, 10.0, 0.0)


class World:
    """Ada, Bob and Cy joined in this order and bought; Dan was told that it is sold out."""

    def __init__(self) -> None:
        self.offer = OFFER
        self.records = [self._buyer(number, name) for number, name in enumerate(("ada", "bob", "cy"))]
        dan = BuyerRecord(3, "dan", 0, ending=Ending.SOLD_OUT, sold_out_at=90.0)
        dan.places = [QueuePlace(3.0, 3.1, 3, 4, 40.0)]
        self.records.append(dan)
        self.reservations = [ReservationRow(f"rsv-{n}", one.buyer_id, 1, "confirmed") for n, one in self._buyers()]
        self.orders = [
            OrderRow(f"ord-{n}", f"rsv-{n}", one.buyer_id, 1, PRICE, 0, "confirmed", MADE) for n, one in self._buyers()
        ]
        self.payments = [
            Payment(f"pay-{n}", Charge(f"rsv-{n}", one.buyer_id, "sale"), PRICE, 1) for n, one in self._buyers()
        ]
        self.balances: dict[str, int] = {}
        self.stock = Stock(UNITS, 0, 0, UNITS)
        self.line = QueueStatus(4, 4, 0, Lottery("0" * 64))
        self.samples = [
            Sample(at, UNITS, 0, 0, UNITS, 4, 0, {"sale": serving}) for at, serving in ((5.0, 1), (50.0, 4))
        ]

    def _buyers(self) -> list[tuple[int, BuyerRecord]]:
        return [(one.number, one) for one in self.records if one.grants]

    def _buyer(self, number: int, name: str) -> BuyerRecord:
        grant = Grant(f"rsv-{number}", 1, PRICE, 40.0 + number, 41.0 + number, "confirmed")
        place = QueuePlace(float(number), number + 0.1, number, number + 1, 40.0)
        return BuyerRecord(number, name, 0, ending=Ending.BOUGHT, places=[place], grants=[grant])

    def evidence(self) -> Evidence:
        sale = SaleSnapshot(self.offer, self.stock, self.line, self.reservations, self.orders)
        return Evidence(
            self.records,
            LedgerSnapshot([sale], self.payments, self.balances),
            self.samples,
            users=4,
            is_exclusive=True,
        )


def witness(bot: BotKind | None = None) -> BuyerRecord:
    """Not in a test file, where pytest would collect a class named Test…."""
    return BuyerRecord(1, "ada", 0, bot)


def hurried(name: str) -> Scenario:
    """A built-in scenario with all waiting times shortened."""
    scenario = load_scenario(name)
    sale = replace(
        scenario.sale,
        hold_seconds=3,
        opens_after_seconds=1.5 if scenario.sale.room.mode == "lottery" else 0.5,
        room=replace(scenario.sale.room, pass_seconds=6),
        products=min(scenario.sale.products, 5),
    )
    crowd = replace(
        scenario.crowd, think_seconds=0.2, leave_after_seconds=1, patience_seconds=5, abandon=0.03, vanish=0.02
    )
    arrival = replace(scenario.arrival, over_seconds=2)
    return replace(scenario, sale=sale, crowd=crowd, arrival=arrival)
