"""Records operators' actions: before they are carried out, and their results."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

import structlog
from sqlalchemy import Connection
from uuid_utils import uuid7

from holdfast.access.identity import Caller
from holdfast.errors import EngineError
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.message import Answer, Request, caller_of
from holdfast.http.contract.problem import Problem
from holdfast.ledger.access.actions import Action, Actor, begin_action, end_action, read_state
from holdfast.ledger.access.keys import Scope
from holdfast.ledger.engine.database import Database
from holdfast.runtime.tracing.context import current_trace

log = structlog.get_logger()

Handler = Callable[..., Awaitable[Answer]]
_SAFE = frozenset({"GET", "HEAD"})
# Actions of programs with the scope `inventory` are in the history of the reservations.
_SCOPES = frozenset({Scope.SALES, Scope.OPERATE, Scope.MONEY, Scope.ADMIN})
# Called thousands of times by programs; the wallet's own entries have each call.
_BULK = frozenset({"credit_wallet"})
_UNKNOWN, _FAILED = 503, 500


def may_be_audited(endpoint: Endpoint) -> bool:
    """Whether operators change something with it."""
    return endpoint.access.services and endpoint.method not in _SAFE and endpoint.operation_id != "sign_in"


def is_audited(endpoint: Endpoint, caller: Caller | None) -> bool:
    if caller is None or caller.buyer_id is not None:
        return False
    if caller.operator_id is not None:
        return True
    scope = endpoint.access.scope
    return endpoint.operation_id not in _BULK and (scope in _SCOPES or (scope is None and not endpoint.access.buyers))


class Auditor:
    def __init__(self, database: Database, record: Database) -> None:
        """`record` is another database if a cell changes something: all operators' actions are in one place."""
        self._database, self._record = database, record

    def audited(self, endpoint: Endpoint, handler: Handler) -> Handler:
        @wraps(handler)
        def call(request: Request, *values: Any) -> Awaitable[Answer]:
            if not is_audited(endpoint, request.caller):
                return handler(request, *values)
            subjects = dict(zip(endpoint.path_parameters, values, strict=False))
            caller = caller_of(request)
            by = Actor(caller.shown_name, caller.operator_id)
            return self.carry_out(endpoint, request, subjects, by, lambda: handler(request, *values))

        return call

    async def carry_out(
        self,
        endpoint: Endpoint,
        request: Request,
        subjects: Mapping[str, str],
        by: Actor,
        work: Callable[[], Awaitable[Answer]],
    ) -> Answer:
        trace = current_trace()
        of_request = (request.request_id, None if trace is None else trace.trace_id)
        action = Action(f"act_{uuid7().hex}", endpoint.operation_id, subject_of(subjects), by, *of_request)
        body = request.body if endpoint.body is not None else None
        await self._write(subjects, lambda c, state, now: begin_action(c, action, state, body, now))
        try:
            answer = await work()
        except Problem as refused:
            await self._end(action, subjects, refused.status, refused.reason)
            raise
        except EngineError:
            await self._end(action, subjects, _UNKNOWN, "outcome_unknown")
            raise
        except Exception:
            await self._end(action, subjects, _FAILED, "internal_error")
            raise
        await self._end(action, subjects, answer.status, None)
        return answer

    async def _write(self, subjects: Mapping[str, str], entry: Callable[[Connection, str | None, int], None]) -> None:
        """With the state of its subject, in the same transaction if possible."""
        record = self._record
        if record is self._database:
            await record.write(lambda c: entry(c, read_state(c, subjects), record.now_ms(c)))
            return
        state = await self._database.read(lambda c: read_state(c, subjects))
        await record.write(lambda c: entry(c, state, record.now_ms(c)))

    async def _end(self, action: Action, subjects: Mapping[str, str], status: int, reason: str | None) -> None:
        """If this fails the action is still answered: its beginning is recorded."""
        try:
            await self._write(subjects, lambda c, state, now: end_action(c, action, state, status, reason, now))
        except EngineError as exc:
            log.warning("action_outcome_not_recorded", action_id=action.action_id, error=str(exc))


def subject_of(subjects: Mapping[str, str]) -> str | None:
    """As in `sale:lamp`. A buyer is named by a digest, because the record is never erased."""
    for name, value in subjects.items():
        kind = name.removesuffix("_id")
        shown = hashlib.sha256(value.encode()).hexdigest()[:16] if kind == "buyer" else value
        return shown if kind == "parked" else f"{kind}:{shown}"
    return None
