"""Irreversible actions wait until a second operator has approved them (docs/TEAM.md).

A request that needs approval is stored and refused with `approval_required`. When another operator approves it, the
same handler carries it out as it was sent. The request, the decision and the result are recorded.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems, team_problems
from holdfast.http.contract.decoding import BodyDecoder
from holdfast.http.contract.endpoint import Endpoint
from holdfast.http.contract.endpoints.money import REFUND_ORDER
from holdfast.http.contract.message import Answer, Request, caller_of, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.approvals import ApprovalList, ApprovalOut, ApprovalQuery
from holdfast.http.endpoints.people.auditing import Auditor, Handler, subject_of
from holdfast.http.endpoints.people.irreversible import GUARDED, Attempt, approval_for, deciders_of
from holdfast.ledger.access import approvals as ledger
from holdfast.ledger.access.actions import Actor
from holdfast.ledger.access.approvals import Approval, ApprovalState, Asked


class Approvals:
    """Guards handlers, and carries out approved requests."""

    def __init__(self, services: Services, auditor: Auditor) -> None:
        self.database, self._auditor = services.database, auditor
        settings = services.settings
        self._is_on, self._refunds_max = settings.approvals, settings.approval_refunds_per_hour
        self._guarded: dict[str, tuple[Endpoint, Handler]] = {}

    def guard(self, handlers: Mapping[Endpoint, Handler]) -> dict[Endpoint, Handler]:
        """All handlers, those that may need approval with a guard."""
        self._guarded = {endpoint.operation_id: (endpoint, handlers[endpoint]) for endpoint in GUARDED}
        if not self._is_on:
            return dict(handlers)
        return {**handlers, **{endpoint: self._guard(endpoint, handlers[endpoint]) for endpoint in GUARDED}}

    def _guard(self, endpoint: Endpoint, handler: Handler) -> Handler:
        @wraps(handler)
        async def call(request: Request, *values: Any) -> Answer:
            parameters = list(values[: len(endpoint.path_parameters)])
            pending = await self._ask(endpoint, request, parameters)
            if pending is None:
                return await handler(request, *values)
            out = ApprovalOut.of(pending)
            raise Problem(team_problems.APPROVAL_REQUIRED, approval_id=out.approval_id, expires_at=out.expires_at)

        return call

    async def _ask(self, endpoint: Endpoint, request: Request, parameters: list[str]) -> Approval | None:
        """None if it may be carried out at once."""
        caller = caller_of(request)
        subjects = dict(zip(endpoint.path_parameters, parameters, strict=True))
        # For all other requests a repeat is the same, whatever its key.
        key = request.idempotency_key if endpoint is REFUND_ORDER else None
        asked = Asked(endpoint.operation_id, subject_of(subjects), parameters, request.body, key)

        def work(connection: Connection) -> Approval | None:
            by = Actor(caller.shown_name, ledger.person_behind(connection, caller.operator_id, caller.key_id))
            attempt = Attempt(asked, by, self.database.now_ms(connection), self._refunds_max)
            return approval_for(connection, endpoint, attempt)

        return await self.database.write(work)

    def endpoint_of(self, approval: Approval) -> Endpoint:
        return self._guarded[approval.asked.action][0]

    def has_others(self, connection: Connection, approval: Approval, operator_id: str) -> bool:
        return any(one != operator_id for one in deciders_of(connection, self.endpoint_of(approval)))

    async def carry_out(self, request: Request, approval: Approval) -> None:
        endpoint, handler = self._guarded[approval.asked.action]
        asked = approval.asked
        values: list[Any] = [*asked.parameters]
        if endpoint.body is not None:
            values.append(BodyDecoder(endpoint.body, is_required=endpoint.is_body_required).decode(asked.body))
        as_sent = replace(request, body=asked.body, idempotency_key=asked.idempotency_key)
        by = Actor(f"{approval.requested_by}, approved by {approval.decided_by}", approval.requested_by_id)
        subjects = dict(zip(endpoint.path_parameters, asked.parameters, strict=True))
        work: Callable[[], Awaitable[Answer]] = lambda: handler(as_sent, *values)  # noqa: E731
        try:
            status, reason = (await self._auditor.carry_out(endpoint, as_sent, subjects, by, work)).status, None
        except Problem as refused:
            status, reason = refused.status, refused.reason
        await self.database.write(lambda c: ledger.finish(c, approval.approval_id, status, reason))


class ApprovalEndpoints:
    def __init__(self, approvals: Approvals) -> None:
        self._approvals, self._database = approvals, approvals.database

    async def list(self, _request: Request, wanted: ApprovalQuery) -> Answer:
        found = await self._database.read(
            lambda c: ledger.list_approvals(c, self._database.now_ms(c), limit=wanted.limit, state=wanted.state)
        )
        return json(ApprovalList([ApprovalOut.of(one) for one in found]))

    async def approve(self, request: Request, approval_id: str) -> Answer:
        found = await self._find(request, approval_id)
        operator_id = caller_of(request).operator_id
        if operator_id is None or operator_id == found.requested_by_id:
            raise Problem(team_problems.APPROVAL_BY_ANOTHER)
        by = Actor(caller_of(request).shown_name, operator_id)

        def work(connection: Connection) -> Approval | None:
            has_others = self._approvals.has_others(connection, found, operator_id)
            return ledger.approve(connection, approval_id, by, self._database.now_ms(connection), has_others=has_others)

        approved = await self._database.write(work)
        if approved is None:
            raise await self._decided_before(found)
        if approved.state is ApprovalState.APPROVED:
            await self._approvals.carry_out(request, approved)
        elif found.decided_by_id == operator_id:
            raise Problem(team_problems.APPROVAL_BY_ANOTHER)
        return await self._show(approval_id)

    async def reject(self, request: Request, approval_id: str) -> Answer:
        """The operator who requested it may reject it, too, which withdraws it."""
        found, caller = await self._find(request, approval_id), caller_of(request)
        by = Actor(caller.shown_name, caller.operator_id)
        if not await self._database.write(lambda c: ledger.reject(c, approval_id, by, self._database.now_ms(c))):
            raise await self._decided_before(found)
        return await self._show(approval_id)

    async def _find(self, request: Request, approval_id: str) -> Approval:
        found = await self._database.read(lambda c: ledger.find_approval(c, approval_id, self._database.now_ms(c)))
        if found is None:
            raise Problem(team_problems.APPROVAL_NOT_FOUND)
        access, caller = self._approvals.endpoint_of(found).access, caller_of(request)
        if not access.admits(caller.scopes, is_legacy=caller.is_legacy):
            raise Problem(problems.FORBIDDEN, f"This needs the scope `{access.scope}`, as what is to be approved does.")
        return found

    async def _decided_before(self, found: Approval) -> Problem:
        again = await self._database.read(
            lambda c: ledger.find_approval(c, found.approval_id, self._database.now_ms(c))
        )
        return Problem(team_problems.APPROVAL_DECIDED, state=(again or found).state)

    async def _show(self, approval_id: str) -> Answer:
        found = await self._database.read(lambda c: ledger.find_approval(c, approval_id, self._database.now_ms(c)))
        assert found is not None
        return json(ApprovalOut.of(found))
