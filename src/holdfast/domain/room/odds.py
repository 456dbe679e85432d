"""The forecast for a person in line: the waiting time, and the probability that stock is left by then.

The model. A person gets something if the people ahead leave enough. The people ahead form three groups: holders of
units who may fail to pay, people inside, and people still waiting. A share of each group will end up buying. The only
evidence for that share is what earlier people did, so it is modelled as a beta distribution: the fewer observations,
the wider. The units that the people ahead will take are a sum with a mean and a variance. The variance comes from the
uncertainty of the share (which grows with the group) and from chance. The odds are the part of that sum's distribution,
approximated as normal, that leaves enough. tests/simulation checks that about 70 % of the people shown "70 %" do get
something.

When it fails. At the very beginning there are no observations, and a number would be made up: until enough outcomes
are known, people see only what is certain (`told_odds`). If people late in the line behave differently from
early ones, the odds lag behind. They are a forecast, never a refusal: a person whose odds are near zero may stay.
"""

from collections.abc import Sequence
from math import ceil, erf, sqrt

from msgspec import Struct

# Below this the page says that the sale will likely sell out first, so that people can leave.
LIKELY_SOLD_OUT_BELOW = 0.01
# Odds that depend on people's behaviour are shown only after this many people bought or did not.
OUTCOMES_MIN = 10


class Seen(Struct, frozen=True):
    """How many people did something, and how many did not. The prior is uniform."""

    did: float = 0.0
    did_not: float = 0.0

    @property
    def share(self) -> float:
        return (self.did + 1) / (self.did + self.did_not + 2)

    @property
    def share_and_spread(self) -> tuple[float, float]:
        """The share and its variance, which is large while there are few observations."""
        share = self.share
        return share, share * (1 - share) / (self.did + self.did_not + 3)


class Group(Struct, frozen=True):
    """People ahead, and whether earlier people like them ended up buying."""

    people: int
    seen: Seen


class Basket(Struct, frozen=True):
    """How many units one buyer takes."""

    mean: float = 1.0
    variance: float = 0.0


ONE_EACH = Basket()


class Outlook(Struct, frozen=True):
    # None: unknown, because the line is not moving.
    eta_seconds: int | None
    # None: too little is known yet.
    odds: float | None

    @property
    def is_likely_sold_out(self) -> bool:
        return self.odds is not None and self.odds < LIKELY_SOLD_OUT_BELOW


def odds_of(unsold: int, before: Sequence[Group], wanted: int = 1, basket: Basket = ONE_EACH) -> float:
    """The probability that the people ahead leave `wanted` of the unsold units."""
    if unsold < wanted:
        return 0.0
    # A single pass without repeated look-ups: this runs for every join.
    people, buyers, variance = 0, 0.0, 0.0
    for group in before:
        share, spread = group.seen.share_and_spread
        people += group.people
        buyers += group.people * share
        variance += _variance(group.people, share, spread, basket)
    if people * max(basket.mean, 1.0) + wanted <= unsold and basket.variance == 0:
        return 1.0
    mean, deviation = buyers * basket.mean, sqrt(variance)
    # Continuity correction: units are whole numbers, the normal distribution is continuous.
    spare = unsold - wanted + 0.5 - mean
    if deviation == 0:
        return 1.0 if spare > 0 else 0.0
    return 0.5 * (1 + erf(spare / deviation / sqrt(2)))


def told_odds(unsold: int, before: Sequence[Group], basket: Basket = ONE_EACH) -> float | None:
    """The odds for one unit, or None if they would follow from fewer outcomes than `OUTCOMES_MIN`. The last group are
    the people in line, whose behaviour matters most."""
    people = sum(group.people for group in before)
    is_certain = unsold < 1 or (people * max(basket.mean, 1.0) + 1 <= unsold and basket.variance == 0)
    seen = before[-1].seen if before else Seen()
    if is_certain or seen.did + seen.did_not >= OUTCOMES_MIN:
        return odds_of(unsold, before, basket=basket)
    return None


def _variance(people: int, share: float, spread: float, basket: Basket) -> float:
    by_chance = people * (share * basket.variance + share * (1 - share) * basket.mean**2)
    # The uncertainty of the share does not average out over more people: all n (n - 1) pairs are correlated.
    by_uncertainty = people * (people - 1) * spread * basket.mean**2
    return by_chance + by_uncertainty


def eta_of(ahead: int, speed_per_second: float, opens_in_ms: int = 0) -> int | None:
    """Seconds until the turn comes, at the measured speed of the line rather than its target."""
    opening = max(opens_in_ms, 0) / 1_000
    if ahead <= 0:
        return ceil(opening)
    return None if speed_per_second <= 0 else ceil(opening + ahead / speed_per_second)
