"""Which part of the state a batch can need, so that an engine loads no more than that."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.domain.stock.command import Command, Expire, Give, Provision, Reserve, Restock
from holdfast.domain.stock.limits import DUE_RETURNED_MAX
from holdfast.domain.stock.pool import Pool


def counts_owners(pool: Pool | None, commands: Sequence[Command]) -> bool:
    """Whether the batch needs its owners' tallies. A rule set within the batch also counts earlier reservations."""
    if pool is not None and pool.rules.count_owners:
        return True
    provisions = [c for c in commands if type(c) is Provision]
    given = [rules for c in provisions if not _leaves_alone(c, pool) for rules in (c.rules, c.changes)]
    return any(rules is not None and rules.count_owners for rules in given)


def _leaves_alone(command: Provision, pool: Pool | None) -> bool:
    return command.only_if_missing and pool is not None


class Needed(Struct, frozen=True):
    """How many reservations a batch may need: the earliest ones that are due, and the earliest due later."""

    due: int = 0
    later: int = 0


def needed_by_deadline(pool: Pool, commands: Sequence[Command], already: int) -> Needed:
    """How many reservations by deadline the batch needs. None if it cannot run out of stock or none is active.

    `already` is how many reservations it loads for other reasons. They may be the earliest ones and may end within the
    batch. The same holds for one more reservation per command that can end one. A reserve attempt only ends its owner's
    due reservations, which are loaded already, and those whose units it needs.

    Each due reservation holds at least one unit, so as many as there are missing units is always enough, up to what a
    batch may return and one more, whose deadline a refusal names. Reservations due later return nothing now, however
    many units are missing. One of them is enough to know the next return time.
    """
    # By type, which is quicker than `isinstance`: this walks along every command of a rush.
    others = [c for c in commands if type(c) is not Reserve]
    wanted = sum([c.quantity for c in commands if type(c) is Reserve])
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
    returned = min(max(missing, 0) + expiring, DUE_RETURNED_MAX + 1)
    return Needed(due=returned + gone, later=gone + 1)
