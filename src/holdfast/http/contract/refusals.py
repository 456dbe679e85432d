"""Problems for what the gate, the engine and the use cases refuse."""

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Any

from holdfast.domain.sale.sale import SaleState
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.errors import Busy, EngineError, LedgerWentBack, OutcomeUnknown
from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import IfUnknown
from holdfast.http.contract.problem import Problem, ProblemKind
from holdfast.ledger.money.refunds import RefundProblem
from holdfast.room.challenge import Entry
from holdfast.runtime.times import rfc3339
from holdfast.sales.operations import Contradiction, Refusal
from holdfast.sales.restocking import Unrestocked

_STOCK = frozenset({Outcome.INSUFFICIENT, Outcome.ALL_HELD, Outcome.SOLD_OUT})
_OF_OUTCOMES: dict[Outcome, ProblemKind] = {
    Outcome.KEY_REUSED: problems.IDEMPOTENCY_KEY_REUSED,
    Outcome.POOL_NOT_FOUND: problems.SKU_NOT_FOUND,
    Outcome.NOT_READY: problems.NOT_READY,
    Outcome.NOT_OPEN: problems.SALE_NOT_OPEN,
    Outcome.PAUSED: problems.SALE_PAUSED,
    Outcome.ENDED: problems.SALE_ENDED,
    Outcome.TIER_REQUIRED: problems.TIER_REQUIRED,
    Outcome.BUYER_LIMIT: problems.BUYER_LIMIT,
    Outcome.HOLD_BUDGET: problems.HOLD_BUDGET,
    Outcome.INSUFFICIENT: problems.INSUFFICIENT_INVENTORY,
    Outcome.ALL_HELD: problems.INSUFFICIENT_INVENTORY,
    Outcome.SOLD_OUT: problems.INSUFFICIENT_INVENTORY,
    Outcome.NOT_FOUND: problems.RESERVATION_NOT_FOUND,
    Outcome.EXTENSION_LIMIT: problems.EXTENSION_LIMIT,
}
# The Sales API tells more precisely than the inventory API what is left.
_OF_PURCHASES = _OF_OUTCOMES | {Outcome.ALL_HELD: problems.ALL_HELD, Outcome.SOLD_OUT: problems.SOLD_OUT}
_DETAILS = {
    Outcome.NOT_READY: "The pool is being prepared; retry shortly.",
    Outcome.ALL_HELD: problems.ALL_HELD.detail,
    Outcome.SOLD_OUT: problems.SOLD_OUT.detail,
}


def refusal(verdict: Verdict, _state: SaleState | None = None) -> Problem:
    """The inventory API's problem for a verdict that is not a success."""
    return _refusal(verdict, _OF_OUTCOMES)


def purchase_refusal(verdict: Verdict, state: SaleState | None) -> Problem:
    is_loading = verdict.outcome is Outcome.PAUSED and state is SaleState.LOADING
    if verdict.outcome is Outcome.POOL_NOT_FOUND or is_loading:
        return Problem(problems.NOT_READY, "The sale is being prepared; retry shortly.")
    return _refusal(verdict, _OF_PURCHASES)


class EncodedRefusals:
    """Problems with their bodies. Many get the same one at once, so it is encoded once. Mostly the very same verdict
    comes again, which takes far less time to see than to hash."""

    def __init__(self, problem_of: Callable[[Verdict, SaleState | None], Problem]) -> None:
        @lru_cache(maxsize=256)
        def encoded(verdict: Verdict, state: SaleState | None) -> tuple[Problem, bytes]:
            problem = problem_of(verdict, state)
            return problem, problem.body()

        self._encoded = encoded
        self._last: tuple[Verdict, SaleState | None, tuple[Problem, bytes]] | None = None

    def of(self, verdict: Verdict, state: SaleState | None = None) -> tuple[Problem, bytes]:
        last = self._last
        if last is not None and last[0] is verdict and last[1] is state:
            return last[2]
        encoded = self._encoded(verdict, state)
        self._last = (verdict, state, encoded)
        return encoded


def _refusal(verdict: Verdict, kinds: dict[Outcome, ProblemKind]) -> Problem:
    outcome = verdict.outcome
    if outcome is Outcome.ILLEGAL:
        assert verdict.reservation is not None
        status = verdict.reservation.status
        return Problem(problems.RESERVATION_STATES[status], state=status)
    detail = _DETAILS.get(outcome)
    if verdict.latest_expires_at is not None and verdict.reservation is not None:
        max_s = (verdict.latest_expires_at - verdict.reservation.created_at) // 1000
        detail = f"This hold lasts at most {max_s} s in all, extensions included."
    return Problem(kinds[outcome], detail, retryable=outcome.is_transient, **_members(verdict))


def _members(verdict: Verdict) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if verdict.outcome in _STOCK:
        members["available"] = verdict.available
    if verdict.next_return_at is not None:
        members["next_return_at"] = rfc3339(verdict.next_return_at)
    if verdict.retry_after_ms is not None:
        members["retry_after_ms"] = verdict.retry_after_ms
    if verdict.opens_at is not None:
        members["starts_at"] = rfc3339(verdict.opens_at)
    if verdict.latest_expires_at is not None:
        members["latest_expires_at"] = rfc3339(verdict.latest_expires_at)
    return members


def below_committed(verdict: Verdict) -> Problem:
    assert verdict.pool is not None
    held, sold = verdict.pool.held, verdict.pool.sold
    detail = f"{held + sold} units are held or sold; the total cannot be lower."
    return Problem(problems.BELOW_COMMITTED, detail, held=held, sold=sold)


def from_engine(error: EngineError, if_unknown: IfUnknown = IfUnknown.REPEAT) -> Problem:
    if isinstance(error, Busy):
        return Problem(problems.BUSY)
    if isinstance(error, OutcomeUnknown):
        detail = f"{problems.OUTCOME_UNKNOWN.detail} {if_unknown}"
        return Problem(problems.OUTCOME_UNKNOWN, detail, retryable=if_unknown.is_retryable)
    return Problem(problems.NOT_READY, str(error) if isinstance(error, LedgerWentBack) else None)


# A body of nothing but unknown fields must not get an answer many times its size.
ERRORS_MAX = 20


def invalid_request(wrong: dict[str, str]) -> Problem:
    """What is wrong with each field; the first one is the detail."""
    errors = [{"field": field, "message": message} for field, message in islice(wrong.items(), ERRORS_MAX)]
    return Problem(problems.INVALID_REQUEST, "{field}: {message}".format_map(errors[0]), errors=errors)


def sale_refusal(refused: Refusal | Contradiction) -> Problem:
    """For what an operator wanted to do with a sale."""
    if isinstance(refused, Contradiction):
        return invalid_request(refused.fields)
    if refused is Refusal.BELOW_COMMITTED:
        return Problem(problems.BELOW_COMMITTED, "More units of this SKU are held or sold than `total_units`.")
    return Problem(problems.CATALOGUE[refused.value])


def restock_refusal(refused: Unrestocked) -> Problem:
    return Problem(problems.CATALOGUE[refused.value])


def refund_refusal(refused: RefundProblem) -> Problem:
    members: dict[str, Any] = (
        {"refundable": refused.left} if refused.reason == problems.REFUND_EXCEEDS_ORDER.reason else {}
    )
    return Problem(problems.CATALOGUE[refused.reason], str(refused), **members)


_OF_ENTRIES = {
    Entry.MISSING: Problem(problems.PROOF_REQUIRED),
    Entry.CAPTCHA_ASKED: Problem(problems.PROOF_REQUIRED, "This sale asks for a captcha token, as captcha:…"),
    Entry.UNVERIFIED: Problem(problems.PROOF_REQUIRED, "The captcha could not be verified; solve a challenge."),
    Entry.TOO_EASY: Problem(problems.PROOF_REQUIRED, "A harder challenge is required."),
    Entry.INVALID: Problem(problems.PROOF_INVALID, "This is not the solution of a challenge that was made here."),
    Entry.EXPIRED: Problem(problems.PROOF_EXPIRED),
    Entry.FOREIGN: Problem(problems.PROOF_INVALID, "The challenge was made for another sale or another buyer."),
    Entry.SPENT: Problem(problems.PROOF_SPENT),
    Entry.REPEATED: Problem(problems.PROOF_SPENT),
}


def behind() -> Problem:
    """So much is unfinished that nothing new begins."""
    detail = "Purchases in progress are completed first. Nothing was changed; retry shortly with the same key."
    return Problem(problems.BUSY, detail)


def proof_refusal(entry: Entry) -> Problem:
    refused = _OF_ENTRIES[entry]
    return Problem(refused.kind, refused.detail)
