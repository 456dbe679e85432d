"""Checks of a join beyond the rules of the sale: the verdicts of the risk service and of the proxy in front, and the
accounts per device.

The proxy sends its verdict in a header. It is accepted from anyone, because clients that forge it can only make joining
harder for themselves: without it, or with an unknown value, the join is allowed.
"""

from time import time

from msgspec import Struct

from holdfast.bootstrap.services import Services
from holdfast.domain.room.risk import RiskVerdict, Visit, strictest
from holdfast.domain.sale.sale import Sale
from holdfast.http.contract import problems
from holdfast.http.contract.message import ClientConnection, Request, buyer_of, caller_of
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.room import JoinIn
from holdfast.http.protection.admission import AdmissionControl
from holdfast.room.challenge import HARDER, USUAL


class Terms(Struct, frozen=True):
    """The conditions of a join."""

    # The level of the challenge that must be solved, if any.
    level: int = USUAL
    # Placed behind everybody who comes before the opening.
    is_last: bool = False


FREELY = Terms()
# AWS's WAF puts a prefix before the names of headers that it inserts.
REPUTATION_HEADERS = ("holdfast-reputation", "x-amzn-waf-holdfast-reputation")
_WORDS = frozenset(RiskVerdict)


class JoinChecks:
    def __init__(self, services: Services, admission: AdmissionControl) -> None:
        self._risk, self._devices, self._refusals = services.risk, services.devices, services.refusals
        self._addresses = admission.addresses

    async def assess(self, request: Request, sale: Sale, given: JoinIn) -> Terms:
        if self._devices.per_device and given.device is None:
            raise Problem(problems.DEVICE_REQUIRED)
        verdict = reputation_in(request.connection)
        if self._risk is not None and verdict is not RiskVerdict.DENY:
            asked = await self._risk.assess(self._visit(request, sale, given), request.request_id)
            verdict = strictest((verdict, asked))
        if verdict is RiskVerdict.DENY:
            raise Problem(problems.JOIN_DENIED)
        if verdict is RiskVerdict.LOTTERY_TAIL:
            self.note(request, sale, verdict)
            return Terms(is_last=True)
        return Terms(HARDER) if verdict is RiskVerdict.HARDER_PUZZLE else FREELY

    def note(self, request: Request, sale: Sale, reason: str) -> None:
        caller = caller_of(request)
        who = (sale.sku_id, buyer_of(request), 0, request.request_id, sale.sale_id, caller.tier)
        self._refusals.note_reason(reason, *who)

    async def claim_device(self, sale: Sale, buyer_id: str, given: JoinIn) -> None:
        if self._devices.per_device and given.device is not None:
            _require(await self._devices.claim(sale.sale_id, given.device, buyer_id))

    def claim_device_here(self, sale: Sale, buyer_id: str, given: JoinIn) -> None:
        """The checks while the store is unavailable."""
        if self._devices.per_device and given.device is not None:
            _require(self._devices.claim_here(sale.sale_id, given.device, buyer_id))

    def _visit(self, request: Request, sale: Sale, given: JoinIn) -> Visit:
        caller = caller_of(request)
        made_at = caller.account_created_at
        age = None if made_at is None else max(int(time()) - made_at, 0)
        address = self._addresses.client_of(request.connection)[0] or None
        return Visit(sale.sale_id, buyer_of(request), caller.tier, given.device, address, age)


def reputation_in(connection: ClientConnection) -> RiskVerdict:
    """What the proxy in front says of this client."""
    lines = [line for name in REPUTATION_HEADERS for line in connection.header_lines(name)]
    if not lines:
        return RiskVerdict.ALLOW
    words = [word.strip().lower() for word in ",".join(lines).split(",")]
    return strictest(RiskVerdict(word) for word in words if word in _WORDS)


def _require(is_allowed: bool) -> None:
    if not is_allowed:
        raise Problem(problems.DEVICE_LIMIT)
