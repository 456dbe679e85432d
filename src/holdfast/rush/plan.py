"""What one buyer will do, drawn before they come: from the seed and their number alone.

So a crowd is the same however many processes play it, and a buyer who saw something odd can be played again.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate
from random import Random

from msgspec import Struct

from holdfast.rush.scenario import BotKind, Scenario


class InLine(StrEnum):
    STAY = "stay"
    LEAVE = "leave"
    COME_BACK = "come_back"
    VANISH = "vanish"


class WithCart(StrEnum):
    PAY = "pay"
    ABANDON = "abandon"
    GIVE_BACK = "give_back"


class Plan(Struct, frozen=True):
    bot: BotKind | None = None
    product: int = 0
    quantity: int = 1
    in_line: InLine = InLine.STAY
    leave_after_s: float = 0
    double_click: bool = False
    loses_reply: bool = False
    refreshes: bool = False
    with_cart: WithCart = WithCart.PAY
    extends: bool = False
    declined: bool = False
    second_card: bool = False
    think_s: float = 0


class Planner:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._seed = seed
        favourites = scenario.crowd.favourites
        wanted = ((number + 1) ** -favourites for number in range(scenario.sale.products))
        self._wanted: Sequence[float] = list(accumulate(wanted))

    def plan(self, number: int) -> Plan:
        chance = Random(f"buyer {self._seed} {number}")
        crowd, bots = self._scenario.crowd, self._scenario.bots
        bot = chance.choice(bots.kinds) if chance.random() < bots.share else None
        [product] = chance.choices(range(self._scenario.sale.products), cum_weights=self._wanted)
        return Plan(
            bot=bot,
            product=product,
            quantity=chance.randint(crowd.least_quantity, crowd.most_quantity),
            in_line=self._in_line(chance),
            leave_after_s=chance.uniform(0, 2 * crowd.leave_after_seconds),
            double_click=chance.random() < crowd.double_clicks,
            loses_reply=chance.random() < crowd.lost_replies,
            refreshes=chance.random() < crowd.refreshes,
            with_cart=self._with_cart(chance),
            extends=chance.random() < crowd.extend,
            declined=chance.random() < crowd.declines,
            second_card=chance.random() < crowd.second_card,
            think_s=chance.uniform(0, 2 * crowd.think_seconds),
        )

    def _in_line(self, chance: Random) -> InLine:
        crowd, drawn = self._scenario.crowd, chance.random()
        if drawn < crowd.leave:
            return InLine.COME_BACK if chance.random() < crowd.come_back else InLine.LEAVE
        return InLine.VANISH if drawn < crowd.leave + crowd.vanish else InLine.STAY

    def _with_cart(self, chance: Random) -> WithCart:
        crowd, drawn = self._scenario.crowd, chance.random()
        if drawn < crowd.abandon:
            return WithCart.ABANDON
        return WithCart.GIVE_BACK if drawn < crowd.abandon + crowd.give_back else WithCart.PAY
