"""Simulated sales in which a buyer is told their odds early on, and then gets a unit or not."""

from dataclasses import dataclass
from random import Random

from holdfast.domain.room.odds import Basket, Group, Seen, odds_of, told_odds


@dataclass(frozen=True)
class Told:
    odds: float
    has_got_one: bool


def told_in(seed: int) -> Told:
    """One sale and one buyer. The odds do not know the conversion; they only see what earlier buyers did."""
    random = Random(seed)
    keen, pays = random.random(), random.uniform(0.5, 1.0)
    most = random.choice((1, 1, 2, 4))
    stock = random.randrange(10, 300)
    known, holding = random.randrange(0, 200), random.randrange(0, 30)
    # Independent of the conversion, or the position would reveal it to the odds.
    waiting = int(stock * 10 ** random.uniform(-0.3, 1.0))

    def bought(chance: float) -> int:
        return random.randint(1, most) if random.random() < chance else 0

    before = [bought(keen * pays) for _ in range(known)]
    seen = Seen(sum(units > 0 for units in before), sum(units == 0 for units in before))
    paid = sum(random.random() < pays for _ in range(100))
    unsold = stock - sum(before)
    groups = [Group(holding, Seen(paid, 100 - paid)), Group(waiting, seen)]
    basket = Basket((1 + most) / 2, (most**2 - 1) / 12)
    odds = odds_of(unsold, groups, basket=basket)
    units = sum(bought(pays) for _ in range(holding)) + sum(bought(keen * pays) for _ in range(waiting))
    return Told(odds, unsold - units >= 1)


def reliability(told: list[Told], bands: int = 10) -> list[tuple[float, float, int]]:
    """Per band of odds: the mean prediction, the share that got a unit, and the count."""
    rows = []
    for band in range(bands):
        inside = [
            one
            for one in told
            if band / bands <= one.odds < (band + 1) / bands or (one.odds == 1.0 and band == bands - 1)
        ]
        if inside:
            mean = sum(one.odds for one in inside) / len(inside)
            rows.append((mean, sum(one.has_got_one for one in inside) / len(inside), len(inside)))
    return rows


def told_in_rush(seed: int) -> list[Told]:
    """One rush from its first second on: whenever a few more have bought or left, people all along the line look at
    their odds. Nobody knows how many of the crowd buy."""
    random = Random(seed)
    keen, stock = random.random(), random.randrange(40, 400)
    people = [random.random() < keen for _ in range(int(stock * random.uniform(1.0, 8.0)))]
    bought_before = [0]
    for buys in people:
        bought_before.append(bought_before[-1] + buys)
    told = []
    for served in range(0, len(people), max(stock // 10, 1)):
        sold = min(bought_before[served], stock)
        seen = Seen(bought_before[served], served - bought_before[served])
        for place in random.sample(range(served, len(people)), min(20, len(people) - served)):
            odds = told_odds(stock - sold, [Group(place - served, seen)])
            if odds is not None and sold < stock:
                told.append(Told(odds, bought_before[place] < stock))
    return told
