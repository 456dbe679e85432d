"""The product, buyers and processes of a run: drawn from the seed, small, and different each time."""

from random import Random

from msgspec import Struct
from msgspec.structs import replace

from holdfast.domain.sale.sale import Checkout, PaymentKind

SKU_ID, SALE_ID = "lamp", "drop"
CURRENCY = "EUR"
HTTP_PART, ROOM_PART = 0.25, 0.06


class Shopper(Struct, frozen=True):
    """One buyer's behaviour. Times are in seconds."""

    buyer_id: str
    arrives_s: float
    quantity: int
    min_quantity: int
    # The pause between attempts, and the timeout of each attempt.
    pause_s: float
    patience_s: float
    attempts_max: int
    double_clicks: bool
    # What to do with a hold: pay, cancel, extend and pay, waver (pay and cancel at once), abandon.
    then: str
    thinks_s: float
    has_money: bool
    method: str | None


class RoomPlan(Struct, frozen=True):
    """The waiting room of a sale, and each buyer's behaviour in it: buy, leave, rejoin, leave_with_pass, no_show."""

    rate_per_second: int
    pass_seconds: int
    behaviours: dict[str, str]

    def behaviour_of(self, buyer_id: str) -> str:
        return self.behaviours.get(buyer_id, "buy")


class Scenario(Struct, frozen=True):
    units: int
    checkout: Checkout
    payment: PaymentKind
    price: int
    per_buyer_limit: int | None
    hold_s: int
    # After the opening; None if the sale does not end.
    ends_s: float | None
    apis: int
    workers: int
    has_webhook: bool
    # Whether the ledger returns to an earlier state during the sale.
    goes_back: bool
    shoppers: tuple[Shopper, ...]
    # Whether buyers go through the HTTP application or call its use cases directly.
    is_http: bool = False
    room: RoomPlan | None = None

    @property
    def hosts(self) -> list[str]:
        apis, workers = range(self.apis), range(self.workers)
        return [*(f"api-{number}" for number in apis), *(f"worker-{number}" for number in workers)]


def draw(rng: Random) -> Scenario:
    scenario = _draw(rng)
    # Drawn last, so that older seeds keep the rest of their scenario.
    is_http = rng.random() < HTTP_PART
    # When a ledger goes back, buyers keep places that it has since given to others, so such runs have no waiting room.
    has_room = rng.random() < ROOM_PART and not scenario.goes_back
    room = _room(rng, scenario) if has_room else None
    return replace(scenario, is_http=is_http or has_room, room=room)


def _draw(rng: Random) -> Scenario:
    payment = rng.choice((PaymentKind.SANDBOX,) * 5 + (PaymentKind.WALLET,) * 2 + (PaymentKind.EXTERNAL,))
    is_cart = payment is PaymentKind.EXTERNAL or rng.random() < 0.6
    units = rng.randint(2, 12)
    limit = rng.choice((None, 1, 2, 3))
    burst_s = rng.choice((0.05, 1.0, 5.0))
    return Scenario(
        units=units,
        checkout=Checkout.CART if is_cart else Checkout.INSTANT,
        payment=payment,
        price=rng.choice((0, 1_000, 1_000, 1_000)),
        per_buyer_limit=limit,
        hold_s=rng.choice((2, 4, 8)),
        ends_s=rng.choice((None,) * 5 + (6.0,)),
        apis=rng.randint(1, 3),
        workers=rng.randint(1, 2),
        has_webhook=rng.random() < 0.12,
        goes_back=rng.random() < 0.08,
        shoppers=tuple(_shopper(rng, number, limit, burst_s) for number in range(rng.randint(5, 20))),
    )


def _room(rng: Random, scenario: Scenario) -> RoomPlan:
    behaviours = ("buy",) * 6 + ("leave", "rejoin", "no_show", "leave_with_pass")
    chosen = {shopper.buyer_id: rng.choice(behaviours) for shopper in scenario.shoppers}
    return RoomPlan(rng.choice((1, 5, 50)), rng.choice((4, 10)), chosen)


def _shopper(rng: Random, number: int, limit: int | None, burst_s: float) -> Shopper:
    quantity = rng.randint(1, min(limit or 3, 3))
    return Shopper(
        buyer_id=f"buyer-{number}",
        arrives_s=round(rng.uniform(0.0, burst_s), 3),
        quantity=quantity,
        min_quantity=rng.randint(1, quantity),
        pause_s=rng.choice((0.1, 0.5, 1.5)),
        patience_s=rng.choice((0.02, 0.3, 6.0, 6.0)),
        attempts_max=rng.choice((1, 4, 12)),
        double_clicks=rng.random() < 0.2,
        then=rng.choice(("pay", "pay", "pay", "cancel", "extend", "waver", "abandon")),
        thinks_s=rng.choice((0.0, 0.5, 2.0, 6.0)),
        has_money=rng.random() < 0.8,
        method=rng.choice((None, None, "pm_card", "pm_decline")),
    )


def late_shopper(buyer_id: str) -> Shopper:
    """A buyer who arrives when everything is over and takes what is left."""
    return Shopper(
        buyer_id,
        0.0,
        1,
        1,
        0.5,
        6.0,
        20,
        double_clicks=False,
        then="abandon",
        thinks_s=0.0,
        has_money=True,
        method=None,
    )
