"""What someone in line is told: how long it will take, and how likely it is that something is left by then.

The model. Somebody gets something if those before them leave enough. Those before are in three groups: people who hold
units and may fail to pay, people inside, and people still waiting. Of each group a share will have bought in the end;
what the people before them did is all that is known about it, so the share is a beta distribution: few seen, little
known. The units they will take are then a sum with a mean and a spread, both from the share's own uncertainty (which
grows with the group) and from chance; the odds are how much of that sum's distribution leaves enough, as a normal
curve. tests/simulation checks that of those told "70 %" about 70 % do get something.

When it fails. At the very beginning nothing is known and the odds are told from an even guess, so they are near the
middle rather than near a promise. If people late in the line behave otherwise than early ones, the odds are late to
say so. They are a forecast, never a refusal: whoever is told that it is hopeless is free to stay.
"""

from collections.abc import Sequence
from math import ceil, erf, sqrt

from msgspec import Struct

# Below this it is said to be hopeless, so that people can leave.
HOPELESS_BELOW = 0.01


class Seen(Struct, frozen=True):
    """How many did, and how many did not, of those of whom it is known. Starts from an even guess about everything."""

    did: float = 0.0
    did_not: float = 0.0

    @property
    def share(self) -> float:
        return (self.did + 1) / (self.did + self.did_not + 2)

    @property
    def share_and_spread(self) -> tuple[float, float]:
        """And the variance of the share itself: how little is known about it."""
        share = self.share
        return share, share * (1 - share) / (self.did + self.did_not + 3)


class Group(Struct, frozen=True):
    """People before someone, and what those like them did: bought in the end, or not."""

    people: int
    seen: Seen


class Basket(Struct, frozen=True):
    """How many units one buyer takes."""

    mean: float = 1.0
    variance: float = 0.0


ONE_EACH = Basket()


class Outlook(Struct, frozen=True):
    # None: nobody can say, because the line stands still.
    eta_seconds: int | None
    odds: float

    @property
    def is_hopeless(self) -> bool:
        return self.odds < HOPELESS_BELOW


def odds_of(unsold: int, before: Sequence[Group], wanted: int = 1, basket: Basket = ONE_EACH) -> float:
    """The chance that `wanted` of the units that are not sold yet are left over by those before."""
    if unsold < wanted:
        return 0.0
    # One walk, with nothing looked up twice: this is reckoned for everyone who joins.
    people, buyers, variance = 0, 0.0, 0.0
    for group in before:
        share, spread = group.seen.share_and_spread
        people += group.people
        buyers += group.people * share
        variance += _variance(group.people, share, spread, basket)
    if people * max(basket.mean, 1.0) + wanted <= unsold and basket.variance == 0:
        return 1.0
    mean, deviation = buyers * basket.mean, sqrt(variance)
    # Half a unit more, because units are whole and the curve is not.
    spare = unsold - wanted + 0.5 - mean
    if deviation == 0:
        return 1.0 if spare > 0 else 0.0
    return 0.5 * (1 + erf(spare / deviation / sqrt(2)))


def _variance(people: int, share: float, spread: float, basket: Basket) -> float:
    by_chance = people * (share * basket.variance + share * (1 - share) * basket.mean**2)
    # Of not knowing the share, which does not even out over more people: n (n - 1) pairs are wrong together.
    by_ignorance = people * (people - 1) * spread * basket.mean**2
    return by_chance + by_ignorance


def eta_of(ahead: int, speed_per_second: float, opens_in_ms: int = 0) -> int | None:
    """Seconds until a turn comes at the speed at which the line does move, not the one it was meant to have."""
    opening = max(opens_in_ms, 0) / 1_000
    if ahead <= 0:
        return ceil(opening)
    return None if speed_per_second <= 0 else ceil(opening + ahead / speed_per_second)
