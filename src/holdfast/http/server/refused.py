"""Records refusals before the gate, and counts shed requests (docs/AUDIT.md)."""

from holdfast.audit.recorder import Recorder
from holdfast.domain.stock.reservation import sku_of
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.message import Request
from holdfast.http.contract.problem import Problem
from holdfast.http.server.router import Found
from holdfast.sales.catalogue import Catalogue

# Forbidden, conflict, too early. Other statuses mean an invalid request.
_REFUSED = frozenset({403, 409, 429})
_SHED = 503


class RefusalNotes:
    def __init__(self, recorder: Recorder, catalogue: Catalogue) -> None:
        self._recorder, self._catalogue = recorder, catalogue

    def note(self, request: Request, found: Found | None, problem: Problem) -> None:
        """Of a buyer who wanted something of a sale or a reservation. What the gate refused is recorded with more
        detail by its endpoint."""
        if problem.status == _SHED:
            self.count_shed(problem.reason)
            return
        caller = request.caller
        if found is None or caller is None or caller.buyer_id is None or not is_recorded(found.route.endpoint):
            return
        if problem.status not in _REFUSED or problem.is_recorded:
            return
        sku_id, sale_id = self._named(found.values[0])
        if sku_id is not None:
            who = (sku_id, caller.buyer_id, 0, request.request_id, sale_id, caller.tier)
            self._recorder.note_reason(problem.reason, *who)

    def count_shed(self, reason: str) -> None:
        self._recorder.count_shed(reason)

    def _named(self, value: str) -> tuple[str | None, str | None]:
        """The SKU and the sale that a path names."""
        sale = self._catalogue.cached(value)
        return (sku_of(value), None) if sale is None else (sale.sku_id, sale.sale_id)


def is_recorded(endpoint: Endpoint) -> bool:
    """Whether it changes something for a buyer: join, admission, purchase, quote, confirm, extend, cancel."""
    is_theirs = endpoint.path_parameters[:1] in (("sale_id",), ("reservation_id",))
    return is_theirs and endpoint.access.buyers and endpoint.method != "GET"
