"""What buyers and operators of sales are refused for."""

from holdfast.domain.command import Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.sale import SaleState
from holdfast.http.invalid import invalid_request
from holdfast.http.money_problems import key_reused
from holdfast.http.problems import Problem, refusal
from holdfast.sales.office import Contradiction, Refusal
from holdfast.sales.restocking import Unrestocked


def sale_not_found() -> Problem:
    return Problem(404, "sale_not_found", "No such sale", "There is no sale by this id.")


def order_not_found() -> Problem:
    return Problem(404, "order_not_found", "No such order", "There is no order by this id, for you.")


def idempotency_key_required() -> Problem:
    detail = "Send an `Idempotency-Key` header: a new one for each purchase, the same one when you repeat it."
    return Problem(400, "idempotency_key_required", "Idempotency key required", detail)


def admission_required() -> Problem:
    detail = "This sale has a waiting room. Send a valid `Holdfast-Pass`."
    return Problem(429, "admission_required", "Wait for your turn", detail)


def external_payment() -> Problem:
    detail = "This sale is paid elsewhere: whoever takes the money confirms, with a service key."
    return Problem(409, "external_payment", "Paid elsewhere", detail)


def busy_with_streams() -> Problem:
    return Problem(503, "busy", "Busy", "Too many event streams are open. Read the reservation instead, or try again.")


def _not_ready() -> Problem:
    return Problem(503, "not_ready", "Not ready", "The sale is being prepared; try again shortly.")


def purchase_refusal(verdict: Verdict, state: SaleState) -> Problem:
    """The Sales API tells more precisely than the inventory API what is left."""
    if verdict.outcome is Outcome.POOL_NOT_FOUND:
        return _not_ready()
    if verdict.outcome is Outcome.PAUSED and state is SaleState.LOADING:
        return _not_ready()
    problem = refusal(verdict)
    if verdict.outcome in (Outcome.ALL_HELD, Outcome.SOLD_OUT):
        problem.reason = verdict.outcome.value
        problem.title = "All held" if verdict.outcome is Outcome.ALL_HELD else "Sold out"
    return problem


_OPERATOR = {
    Refusal.EXISTS: ("Sale exists", "There is a sale by this id already, and it is another one."),
    Refusal.SKU_IN_SALE: ("SKU in a sale", "This SKU is in another sale that is not closed yet."),
    Refusal.BELOW_COMMITTED: ("Units are committed", "More units of this SKU are held or sold than `total_units`."),
    Refusal.STARTED: (
        "Sale started",
        "The price, its currency, how it is paid and the start are fixed from a few seconds before the start on.",
    ),
    Refusal.ORDER_FIXED: (
        "Order is fixed",
        "Whether the line is by arrival or by lot is fixed once somebody is in it, or the sale is about to start.",
    ),
    Refusal.ENDED: ("Ended", "The sale is over."),
    Refusal.NOT_LOADED: ("Not loaded", "The sale has no pool yet; its `problem` says why."),
}


def unrestocked(why: Unrestocked) -> Problem:
    if why is Unrestocked.KEY_REUSED:
        return key_reused()
    detail = "The answer to the first request under this key was lost. Look at `total_units` before you ask again."
    return Problem(409, why.value, "Nobody can say", detail)


def office_refusal(refused: Refusal | Contradiction) -> Problem:
    if isinstance(refused, Contradiction):
        return invalid_request(refused.fields)
    if refused is Refusal.NOT_FOUND:
        return sale_not_found()
    title, detail = _OPERATOR[refused]
    return Problem(409, refused.value, title, detail)
