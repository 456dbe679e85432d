"""Units claimed from a limit before the gate decides, and adjusted to the verdict afterwards."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from holdfast.domain.stock.command import Reserve, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import EngineError, OutcomeUnknown

SetUnits = Callable[[str, int], Awaitable[None]]
"""As many units as were granted to a reservation count; none: it was not made."""


async def decided(command: Reserve, decide: Callable[[], Awaitable[Verdict]], set_units: SetUnits) -> Verdict:
    """The verdict, once exactly the granted units are claimed. While the outcome is unknown, all of them count."""
    try:
        verdict = await decide()
    except OutcomeUnknown:
        raise
    except EngineError:
        # With a quote, an earlier request may have been granted this same reservation.
        if command.quote_id is None:
            with suppress(EngineError):
                await set_units(command.reservation_id, 0)
        raise
    if verdict.outcome is Outcome.KEY_REUSED and command.quote_id is not None:
        return verdict
    found = verdict.reservation
    # With a quote, the first of two requests may have been granted this same reservation.
    is_it = found is not None and found.reservation_id == command.reservation_id
    granted = found if verdict.outcome is Outcome.RESERVED or is_it else None
    if granted is None or granted.quantity != command.quantity:
        # A count that is too high is better than a grant without a response.
        with suppress(EngineError):
            await set_units(command.reservation_id, 0 if granted is None else granted.quantity)
    return verdict
