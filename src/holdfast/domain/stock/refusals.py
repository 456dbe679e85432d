"""Why a pool's rules refuse an attempt to reserve."""

from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Rules


def refuse_by_rules(rules: Rules, command: Reserve, now: int) -> Verdict | None:
    if rules.opens_at is not None and now < rules.opens_at:
        return Verdict(Outcome.NOT_OPEN, opens_at=rules.opens_at)
    if rules.paused:
        return Verdict(Outcome.PAUSED)
    if rules.ends_at is not None and now >= rules.ends_at:
        return Verdict(Outcome.ENDED)
    if rules.required_tier is not None and command.tier < rules.required_tier:
        return Verdict(Outcome.TIER_REQUIRED)
    return None
