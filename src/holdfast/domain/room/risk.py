"""The request to a risk service, or a proxy, about a person who joins, and its possible verdicts."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class RiskVerdict(StrEnum):
    """From the mildest to the strictest."""

    ALLOW = "allow"
    # A proof of work several times as expensive, even in a sale that requires none.
    HARDER_PUZZLE = "harder_puzzle"
    # Behind everybody who came before the opening: the lottery is drawn without this person.
    LOTTERY_TAIL = "lottery_tail"
    DENY = "deny"


_STRICTNESS = {verdict: at for at, verdict in enumerate(RiskVerdict)}


def strictest(verdicts: Iterable[RiskVerdict]) -> RiskVerdict:
    return max(verdicts, key=_STRICTNESS.__getitem__, default=RiskVerdict.ALLOW)


class Visit(Struct, frozen=True):
    """A join, as the risk service gets it."""

    sale_id: str
    buyer_id: str
    tier: int
    # The random ID that the page stored in this browser; None if it sent none.
    device: str | None
    address: str | None
    # From the buyer's token, if it says when the account was made.
    account_age_seconds: int | None
