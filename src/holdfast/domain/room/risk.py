"""What a risk service is told about somebody who joins, and what it may answer. A proxy in front may say the same."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class RiskVerdict(StrEnum):
    """From the mildest to the strictest."""

    ALLOW = "allow"
    # A proof of work that costs several times as much, also in a sale that asks for none.
    HARDER_PUZZLE = "harder_puzzle"
    # Behind everybody who came before the opening: a lottery is drawn without them.
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
    # What the client's page made up for this browser; None if it sent nothing.
    device: str | None
    address: str | None
    # From the buyer's token, if it says when the account was made.
    account_age_seconds: int | None
