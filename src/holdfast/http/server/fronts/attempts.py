"""Purchases that are likely to be refused, as a short question to the core instead of the whole request.

After a sale is sold out, nearly every request is a purchase to be refused. The front reads it and sends the core only
the buyer, the quantity and the address. The core answers without a task or parsing the request; limits are counted and
the refusal is recorded as usual. It only refuses if it is certain at that moment. Otherwise it answers that it is
unsure, and gets the whole request.
"""

from time import monotonic

import msgspec

from holdfast.access.identity import Caller
from holdfast.bootstrap.services import Services
from holdfast.checkout.purchase import Wanted
from holdfast.http.contract.decoding import BodyDecoder
from holdfast.http.contract.endpoints.purchase import PURCHASE
from holdfast.http.contract.message import Answer, Request
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.problems import RATE_LIMITED
from holdfast.http.contract.schemas.sales import PurchaseIn
from holdfast.http.endpoints.purchase import PurchaseEndpoint
from holdfast.http.protection.admission import AdmissionControl, client_addresses
from holdfast.http.protection.limits import Passed
from holdfast.http.server.fronts.channel import Answered, Attempted, Buyer, Unsure
from holdfast.http.server.router import Router, is_key
from holdfast.runtime import metrics
from holdfast.runtime.tracing.context import TRACEPARENT
from holdfast.settings import Settings
from holdfast.streams.clicks.recorder import ClickRecorder

# More sales at once than are worthwhile; each is learnt again with one request.
SALES_MAX = 64
_CONFLICT = 409


class RefusingSales:
    """A front's memory of the sales whose last purchase was refused."""

    def __init__(self, settings: Settings, router: Router) -> None:
        self._router = router
        self._addresses = client_addresses(settings)
        # A caller who traces this purchase gets the answer of the whole application.
        self._whole_if = ("origin", TRACEPARENT) if settings.otel_endpoint else ("origin",)
        self._decode = BodyDecoder(PurchaseIn, is_required=True).decode
        # By the path of their purchases.
        self._sales: dict[str, str] = {}

    def note(self, request: Request, answer: Answer) -> None:
        """The core's answer to a whole request."""
        if answer.status != _CONFLICT:
            return
        found = self._router.find(request.method, request.path)
        if found is not None and found.route.endpoint is PURCHASE:
            if len(self._sales) >= SALES_MAX:
                self._sales.clear()
            self._sales[request.path] = found.values[0]

    def forget(self, request: Request) -> None:
        self._sales.pop(request.path, None)

    def attempt(self, number: int, request: Request, buyer: Buyer) -> Attempted | None:
        """The refusal, or None if the whole request has to go to the core."""
        sale_id, key = self._sales.get(request.path), request.idempotency_key
        if sale_id is None or key is None or request.query or request.method != "POST" or not is_key(key):
            return None
        try:
            given = self._decode(request.body)
            pass_ = request.header("holdfast-pass")
            if any(request.header(name) is not None for name in self._whole_if):
                return None
            address = self._addresses.limited(request.connection)
        except (Problem, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # The core reports the error.
        if given != PurchaseIn(given.quantity):
            return None
        buyer_id, tier, _, _, token_id = buyer
        return Attempted(
            number, sale_id, buyer_id, tier, token_id, key, given.quantity, pass_, address, request.request_id
        )


class RefuseAtOnce:
    """The core's side."""

    def __init__(self, services: Services, admission: AdmissionControl, clicks: ClickRecorder | None) -> None:
        self._endpoint = PurchaseEndpoint(services, admission)
        self._limits, self._limiter = admission.limits, admission.shedder.limiter
        self._clicks, self._refusals = clicks, services.refusals
        self._revoked = services.control.revoked_buyers
        self._timings = metrics.timings_of(PURCHASE.operation_id)

    def answer(self, attempt: Attempted) -> Answered | Unsure:
        began = monotonic()
        caller = Caller(buyer_id=attempt.buyer_id, tier=attempt.tier, token_id=attempt.token_id)
        wanted = Wanted(attempt.buyer_id, attempt.tier, attempt.key, attempt.quantity, pass_=attempt.pass_)
        assert PURCHASE.priority is not None
        is_welcome = self._limiter.has_room(PURCHASE.priority) and not self._revoked.includes(caller)
        certain = self._endpoint.certain_refusal(attempt.sale_id, wanted) if is_welcome else None
        if certain is None:
            return Unsure(attempt.number)
        passed = self._limits.check_known_buyer(attempt.address, caller, PURCHASE.path, PURCHASE.rate)
        if isinstance(passed, Passed):
            answer = self._endpoint.refuse(certain, wanted, attempt.request_id)
            answer.headers += passed.headers
        else:
            answer = passed
            self._refusals.count_shed(RATE_LIMITED.reason)
        if self._clicks is not None:
            values = [attempt.sale_id]
            self._clicks.note(PURCHASE.operation_id, values, attempt.buyer_id, answer.status, answer.body)
        answer.headers.append(("x-request-id", attempt.request_id))
        metrics.time_request(self._timings, answer.status, monotonic() - began)
        return Answered(attempt.number, answer.status, answer.headers, answer.body)
