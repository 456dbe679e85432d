"""The irreversible actions that wait for a second operator, over HTTP and from the command line."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.sale.sale import OversellPolicy, Phase
from holdfast.http.contract.decoding import BodyDecoder
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints.money import REFUND_ORDER
from holdfast.http.contract.endpoints.operate import COMPENSATE, DROP_PARKED
from holdfast.http.contract.endpoints.sales import CHANGE_SALE, CLOSE_SALE
from holdfast.http.contract.schemas.sales import SalePatch
from holdfast.ledger.access import approvals as ledger
from holdfast.ledger.access.actions import Actor
from holdfast.ledger.access.approvals import HOUR_MS, Approval, Asked
from holdfast.ledger.sales import shortage
from holdfast.ledger.sales.sales import find_sale
from holdfast.ledger.sales.shortage import Shortage

_RUNNING = frozenset({Phase.OPEN, Phase.ALL_HELD, Phase.SOLD_OUT, Phase.PAUSED})
_MONEY = ("settlement:", "refund:")
_PATCH = BodyDecoder(SalePatch, is_required=True)


class Attempt(Struct, frozen=True):
    """An operator's attempt, which is already recorded."""

    asked: Asked
    # `operator_id` is the person, also behind a key that they made.
    by: Actor
    now: int
    refunds_max: int

    @property
    def subject_id(self) -> str:
        return self.asked.parameters[0]


def approval_for(connection: Connection, endpoint: Endpoint, attempt: Attempt) -> Approval | None:
    """The approval it waits for; None if it may be carried out now."""
    if not GUARDED[endpoint](connection, attempt):
        return None
    others = [one for one in deciders_of(connection, endpoint) if one != attempt.by.operator_id]
    # If nobody else could approve, nothing waits for approval.
    return ledger.ask(connection, attempt.asked, attempt.by, attempt.now) if others else None


def deciders_of(connection: Connection, endpoint: Endpoint) -> Sequence[str]:
    """The operators who could approve it."""
    return ledger.deciders(connection, lambda scopes: endpoint.access.admits(scopes, is_legacy=False))


def _is_mass_refund(connection: Connection, attempt: Attempt) -> bool:
    since = attempt.now - HOUR_MS
    return ledger.count_actions(connection, attempt.asked.action, attempt.by.name, since) > attempt.refunds_max


def _is_running(connection: Connection, attempt: Attempt) -> bool:
    sale = find_sale(connection, attempt.subject_id)
    return sale is not None and attempt.now >= sale.starts_at and sale.phase(attempt.now, None) in _RUNNING


def _ends_or_cancels(connection: Connection, attempt: Attempt) -> bool:
    changes = _PATCH.decode(attempt.asked.body).changes()
    return _ends_sooner(connection, attempt, changes.get("ends_at")) or _would_cancel(connection, attempt, changes)


def _ends_sooner(connection: Connection, attempt: Attempt, ends_at: int | None) -> bool:
    """An end in the past is refused by itself."""
    sale = find_sale(connection, attempt.subject_id)
    if sale is None or ends_at is None or ends_at <= attempt.now or not _is_running(connection, attempt):
        return False
    return sale.ends_at is None or ends_at < sale.ends_at


def _would_cancel(connection: Connection, attempt: Attempt, changes: Mapping[str, object]) -> bool:
    """Whether the next reconciliation would cancel orders that it does not cancel now."""
    now = shortage.of_sale(connection, attempt.subject_id)
    if now is None:
        return False
    names = {"oversell_policy": "policy", "review_above_percent": "review_above_percent"}
    after = replace(now, **{names[name]: value for name, value in changes.items() if name in names})
    return _is_cancelled_by_itself(after) and not _is_cancelled_by_itself(now)


def _is_cancelled_by_itself(short: Shortage) -> bool:
    return short.policy is OversellPolicy.CANCEL_LAST and short.units > 0 and not short.needs_review


GUARDED: Mapping[Endpoint, Callable[[Connection, Attempt], bool]] = {
    REFUND_ORDER: _is_mass_refund,
    COMPENSATE: lambda connection, attempt: find_sale(connection, attempt.subject_id) is not None,
    DROP_PARKED: lambda _connection, attempt: attempt.subject_id.startswith(_MONEY),
    CLOSE_SALE: _is_running,
    CHANGE_SALE: _ends_or_cancels,
}
