"""The behaviour of one buyer, drawn in advance from nothing but the seed and their number.

The same seed therefore gives the same buyers for any number of processes, and one buyer's visit can be replayed.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate
from random import Random

from msgspec import Struct

from holdfast.lab.scenarios.scenario import BotKind, Scenario


class QueueBehaviour(StrEnum):
    STAY = "stay"
    LEAVE = "leave"
    COME_BACK = "come_back"
    VANISH = "vanish"


class CartAction(StrEnum):
    PAY = "pay"
    ABANDON = "abandon"
    GIVE_BACK = "give_back"


class Behaviour(Struct, frozen=True):
    bot: BotKind | None = None
    product: int = 0
    quantity: int = 1
    in_line: QueueBehaviour = QueueBehaviour.STAY
    leave_after_s: float = 0
    double_click: bool = False
    loses_reply: bool = False
    refreshes: bool = False
    cart_action: CartAction = CartAction.PAY
    extends: bool = False
    declined: bool = False
    second_card: bool = False
    think_s: float = 0
    looks_first: bool = False


class BehaviourPlanner:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._seed = seed
        favourites = scenario.crowd.favourites
        weights = ((number + 1) ** -favourites for number in range(scenario.sale.products))
        self._cumulative_weights: Sequence[float] = list(accumulate(weights))

    def plan(self, number: int) -> Behaviour:
        chance = Random(f"buyer {self._seed} {number}")
        crowd, bots = self._scenario.crowd, self._scenario.bots
        bot = chance.choice(bots.kinds) if chance.random() < bots.share else None
        [product] = chance.choices(range(self._scenario.sale.products), cum_weights=self._cumulative_weights)
        return Behaviour(
            bot=bot,
            product=product,
            quantity=chance.randint(crowd.least_quantity, crowd.most_quantity),
            in_line=self._in_line(chance),
            leave_after_s=chance.uniform(0, 2 * crowd.leave_after_seconds),
            double_click=chance.random() < crowd.double_clicks,
            loses_reply=chance.random() < crowd.lost_replies,
            refreshes=chance.random() < crowd.refreshes,
            cart_action=self._cart_action(chance),
            extends=chance.random() < crowd.extend,
            declined=chance.random() < crowd.declines,
            second_card=chance.random() < crowd.second_card,
            think_s=chance.uniform(0, 2 * crowd.think_seconds),
            looks_first=chance.random() < crowd.look_first,
        )

    def _in_line(self, chance: Random) -> QueueBehaviour:
        crowd, drawn = self._scenario.crowd, chance.random()
        if drawn < crowd.leave:
            return QueueBehaviour.COME_BACK if chance.random() < crowd.come_back else QueueBehaviour.LEAVE
        return QueueBehaviour.VANISH if drawn < crowd.leave + crowd.vanish else QueueBehaviour.STAY

    def _cart_action(self, chance: Random) -> CartAction:
        crowd, drawn = self._scenario.crowd, chance.random()
        if drawn < crowd.abandon:
            return CartAction.ABANDON
        return CartAction.GIVE_BACK if drawn < crowd.abandon + crowd.give_back else CartAction.PAY
