"""The known facts of a sale: who arrives, what is sold, how buyers behave. Nothing about hardware."""

from enum import StrEnum
from math import sqrt

from msgspec import Struct

from holdfast.errors import SettingsError
from holdfast.lab.scenarios.scenario import HAMMER_BURST, HAMMER_BURSTS, BotKind, Scenario, Shape

# Longer than any planned sale, but still fast to simulate.
WINDOW_MAX_S = 4 * 3600.0
# How soon buyers retry when all units are held, as in a rush.
RETRY_S = 1.5


class Payment(StrEnum):
    WALLET = "wallet"
    CARD = "card"
    EXTERNAL = "external"


class Facts(Struct, frozen=True, kw_only=True):
    """Shares are from 0 to 1. Durations of buyers' actions are averages: each takes from zero to twice as long."""

    users: int
    units: int
    engine: str = "redis"
    shape: Shape = Shape.ALL_AT_ONCE
    over_s: float = 60.0
    opens_after_s: float = 0.0
    window_s: float = WINDOW_MAX_S
    has_room: bool = True
    has_edge: bool = True
    rate_per_second: float = 2_000.0
    pass_s: float = 300.0
    no_show: float = 0.1
    # When no-shows leave the queue, on average. 0: they stay in it, but do not show up, however soon they are called.
    leave_after_s: float = 0.0
    conversion: float = 0.9
    browse_s: float = 10.0
    quantity: float = 1.0
    is_instant: bool = False
    hold_s: float = 300.0
    abandon: float = 0.1
    give_back: float = 0.0
    pay_s: float = 60.0
    declines: float = 0.03
    payment: Payment = Payment.CARD
    provider_s: float = 1.0
    patience_s: float = 30.0
    # Purchase requests per buyer, with double clicks, lost responses and reloads.
    attempts_each: float = 1.0
    # Refused requests of bots, per buyer.
    refused_each: float = 0.0

    def arrived(self, at_s: float) -> int:
        """The number of buyers who have arrived by then."""
        part = 1.0 if self.over_s <= 0 else min(max(at_s, 0.0) / self.over_s, 1.0)
        return round(self.users * (part * part if self.shape is Shape.RAMP else part))

    def arrived_at(self, number: float) -> float:
        """The time by which this many had arrived; the inverse of `arrived`."""
        part = min(number / self.users, 1.0)
        return self.over_s * (sqrt(part) if self.shape is Shape.RAMP else part)

    def no_show_after(self, waited_s: float) -> float:
        """The share of no-shows after a wait of this length."""
        if self.leave_after_s <= 0:
            return self.no_show
        return self.no_show * min(max(waited_s, 0.0) / (2 * self.leave_after_s), 1.0)

    def check(self) -> None:
        for name in ("no_show", "abandon", "give_back", "declines"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name} is a share: from 0 to 1")
        if not 0 < self.conversion <= 1:
            raise SettingsError("conversion is a share above 0 and at most 1")
        if self.is_instant and self.payment is Payment.EXTERNAL:
            raise SettingsError("--payment external needs a cart: remove --instant")
        if self.abandon + self.give_back > 1:
            raise SettingsError("abandon and give_back together are more than all carts")


def facts_of(scenario: Scenario, users: int, units: int, engine: str) -> Facts:
    """The facts of a rush, to plan it. Bots that must be refused are not buyers, but their requests count as load."""
    sale, crowd = scenario.sale, scenario.crowd
    has_room = sale.room.mode != "off"
    outsiders = _kept_out(scenario)
    people = round(users * (1 - outsiders))
    return Facts(
        users=max(people, 1),
        units=units,
        engine=engine,
        shape=scenario.arrival.shape,
        over_s=scenario.arrival.over_seconds,
        opens_after_s=sale.opens_after_seconds,
        has_room=has_room,
        has_edge=crowd.edge_cache,
        rate_per_second=float(sale.room.rate_per_second),
        pass_s=float(sale.room.pass_seconds),
        # Buyers who come back rejoin at the end of the queue, so their first place stays unused.
        no_show=crowd.vanish + crowd.leave if has_room else 0.0,
        leave_after_s=crowd.leave_after_seconds,
        conversion=1.0,
        browse_s=0.0,
        quantity=_quantity(scenario),
        is_instant=sale.checkout == "instant",
        hold_s=float(sale.hold_seconds),
        abandon=crowd.abandon,
        give_back=crowd.give_back,
        pay_s=crowd.think_seconds,
        declines=crowd.declines * (1 - crowd.second_card),
        payment=Payment.CARD if sale.payment == "sandbox" else Payment(sale.payment),
        provider_s=0.0,
        patience_s=crowd.patience_seconds,
        attempts_each=1 + crowd.double_clicks + crowd.lost_replies + crowd.refreshes,
        refused_each=_refused(scenario) * outsiders / (1 - outsiders) if outsiders < 1 else 0.0,
    )


def _kept_out(scenario: Scenario) -> float:
    """The share of bots that must be refused. Rings of accounts buy like everyone else."""
    kinds = scenario.bots.kinds
    outsiders = [kind for kind in kinds if kind is not BotKind.MANY_ACCOUNTS]
    return scenario.bots.share * len(outsiders) / max(len(kinds), 1)


def _refused(scenario: Scenario) -> float:
    """Requests per refused bot, on average."""
    made = {BotKind.HAMMER: HAMMER_BURST * HAMMER_BURSTS, BotKind.FORGED: 4, BotKind.NO_PROOF: 2}
    found = [made[kind] for kind in scenario.bots.kinds if kind in made]
    return sum(found) / max(len(found), 1)


def _quantity(scenario: Scenario) -> float:
    crowd, limit = scenario.crowd, scenario.sale.per_buyer_limit
    wanted = (crowd.least_quantity + crowd.most_quantity) / 2
    return wanted if limit is None else min(wanted, float(limit))
