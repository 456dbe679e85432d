"""A little evidence of a rush that went well, for tests to spoil; and scenarios that take seconds, not minutes."""

from msgspec.structs import replace

from holdfast.rush.books import Books, Charge, Payment, SaleBooks
from holdfast.rush.checks import Evidence
from holdfast.rush.operator import Line, OrderRow, ReservationRow, Stock
from holdfast.rush.scenario import BotKind, Scenario, load_scenario
from holdfast.rush.testimony import Ending, Grant, Standing, Testimony
from holdfast.rush.visitor import Offer
from holdfast.rush.watch import Sample
from holdfast.rush.wishes import Lottery

PRICE, LIMIT, UNITS = 100, 1, 3
MADE = "2026-11-16T12:00:00.000Z"
OFFER = Offer("sale", "sku", UNITS, "cart", "sandbox", PRICE, "EUR", "fifo", False, LIMIT, 10.0, 0.0)


class World:
    """Ada, Bob and Cy stood in line in this order and bought; Dan was told that all is sold."""

    def __init__(self) -> None:
        self.offer = OFFER
        self.testimonies = [self._buyer(number, name) for number, name in enumerate(("ada", "bob", "cy"))]
        dan = Testimony(3, "dan", 0, ending=Ending.SOLD_OUT, sold_out_at=90.0)
        dan.places = [Standing(3.0, 3.1, 3, 4, 40.0)]
        self.testimonies.append(dan)
        self.reservations = [ReservationRow(f"rsv-{n}", one.buyer_id, 1, "confirmed") for n, one in self._buyers()]
        self.orders = [
            OrderRow(f"ord-{n}", f"rsv-{n}", one.buyer_id, 1, PRICE, 0, "confirmed", MADE) for n, one in self._buyers()
        ]
        self.payments = [
            Payment(f"pay-{n}", Charge(f"rsv-{n}", one.buyer_id, "sale"), PRICE, 1) for n, one in self._buyers()
        ]
        self.balances: dict[str, int] = {}
        self.stock = Stock(UNITS, 0, 0, UNITS)
        self.line = Line(4, 4, 0, Lottery("0" * 64))
        self.samples = [
            Sample(at, UNITS, 0, 0, UNITS, 4, 0, {"sale": serving}) for at, serving in ((5.0, 1), (50.0, 4))
        ]

    def _buyers(self) -> list[tuple[int, Testimony]]:
        return [(one.number, one) for one in self.testimonies if one.grants]

    def _buyer(self, number: int, name: str) -> Testimony:
        grant = Grant(f"rsv-{number}", 1, PRICE, 40.0 + number, 41.0 + number, "confirmed")
        place = Standing(float(number), number + 0.1, number, number + 1, 40.0)
        return Testimony(number, name, 0, ending=Ending.BOUGHT, places=[place], grants=[grant])

    def evidence(self) -> Evidence:
        sale = SaleBooks(self.offer, self.stock, self.line, self.reservations, self.orders)
        return Evidence(self.testimonies, Books([sale], self.payments, self.balances), self.samples, is_alone=True)


def witness(bot: BotKind | None = None) -> Testimony:
    """Made here, because pytest takes whatever is called Test… in a file of tests for one."""
    return Testimony(1, "ada", 0, bot)


def hurried(name: str) -> Scenario:
    """One of those that come with Holdfast, with everything that only takes time cut short."""
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
