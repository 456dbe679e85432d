"""What of the world a batch can need to see, so that an engine loads that and no more."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.domain.command import Command, Expire, Give, Provision, Reserve, Restock
from holdfast.domain.pool import Pool


def counts_owners(pool: Pool | None, commands: Sequence[Command]) -> bool:
    """Whether the batch needs its owners' tallies. A rule set within the batch counts what came before it too."""
    if pool is not None and pool.rules.count_owners:
        return True
    provisions = [c for c in commands if isinstance(c, Provision)]
    given = [rules for c in provisions if not _leaves_alone(c, pool) for rules in (c.rules, c.changes)]
    return any(rules is not None and rules.count_owners for rules in given)


def _leaves_alone(command: Provision, pool: Pool | None) -> bool:
    return command.only_if_missing and pool is not None


class Needed(Struct, frozen=True):
    """How many reservations a batch may need to see: the earliest of those due by now, and of those due later."""

    due: int = 0
    later: int = 0


def needed_by_deadline(pool: Pool, commands: Sequence[Command], already: int) -> Needed:
    """None at all if the batch cannot run short of stock, or there are none that have a deadline.

    `already` is how many reservations it sees for other reasons: they may be the earliest, and be gone when it looks;
    and so may one more for each command that can end one. An attempt ends none but those that are due and of its owner,
    which are seen already, and those whose units it wants.

    Of those that are due, each holds at least one unit, so as many as there are units missing is always enough. Those
    due later return nothing now, however many units are missing: one of them says when there is hope again.
    """
    others = [c for c in commands if not isinstance(c, Reserve)]
    wanted = sum([c.quantity for c in commands if isinstance(c, Reserve)])
    wanted += sum(c.units for c in others if isinstance(c, Give))
    expiring = sum(c.limit for c in others if isinstance(c, Expire))
    shrinking = sum(c.units for c in others if isinstance(c, Restock) and c.units < 0)
    provisions = [c for c in others if isinstance(c, Provision) and not _leaves_alone(c, pool)]
    totals = [pool.total if c.total is None else c.total for c in provisions]
    shrinking += sum(total - pool.total for total in totals if total < pool.total)
    missing = wanted - shrinking - pool.available
    if not pool.active_reservations or (missing <= 0 and not expiring):
        return Needed()
    gone = already + len(others)
    return Needed(due=max(missing, 0) + expiring + gone, later=gone + 1)
