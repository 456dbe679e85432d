"""Counters (`runtime/counters.py`) as responses show them."""

from collections.abc import Mapping, Sequence

from holdfast.domain.stock.outcome import Outcome
from holdfast.http.contract.schemas.operate import AnswerTimesOut, AttemptsOut, ReturnedOut, TurnedAwayOut
from holdfast.runtime.counters import BOUNDS_MS, RETURNED, TOLD, TOOK
from holdfast.runtime.histogram import quantile

_ANSWERS = list(Outcome)
# Every outcome of an attempt to reserve except success.
_REFUSALS = _ANSWERS[_ANSWERS.index(Outcome.KEY_REUSED) : _ANSWERS.index(Outcome.RESERVED)]
_RETURNS = ("expired", "cancelled", "failed")


def attempts_of(counts: Mapping[str, int]) -> AttemptsOut:
    by_outcome = {outcome: counts.get(TOLD + outcome, 0) for outcome in Outcome}
    refused = {outcome.value: by_outcome[outcome] for outcome in _REFUSALS if by_outcome[outcome]}
    granted, repeated = by_outcome[Outcome.RESERVED], by_outcome[Outcome.REPLAYED]
    return AttemptsOut(granted + repeated + sum(refused.values()), granted, repeated, refused)


def returned_of(counts: Mapping[str, int]) -> ReturnedOut:
    return ReturnedOut(*(counts.get(RETURNED + name, 0) for name in _RETURNS))


def turned_away_of(counts: Mapping[str, int]) -> TurnedAwayOut:
    """Requests of any kind of endpoint."""
    return TurnedAwayOut(
        *(sum(number for name, number in counts.items() if name.startswith(f"{kind}.")) for kind in ("shed", "limited"))
    )


def took_of(counts: Mapping[str, int]) -> list[int]:
    """How many answers took how long."""
    return [counts.get(f"{TOOK}{index}", 0) for index in range(len(BOUNDS_MS) + 1)]


def answer_times_of(took: Sequence[int]) -> AnswerTimesOut:
    return AnswerTimesOut(_quantile(took, 0.5), _quantile(took, 0.99), sum(took))


def _quantile(took: Sequence[int], share: float) -> float | None:
    found = quantile(BOUNDS_MS, took, share)
    return None if found is None else round(found, 1)
