"""Operators, their sessions, and the record of what they did."""

from sqlalchemy import Connection

from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems, team_problems
from holdfast.http.contract.message import Answer, Request, caller_of, json, no_content
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.team import (
    ActionOut,
    ActionPage,
    ActionQuery,
    ConsoleSessionList,
    ConsoleSessionOut,
    InvitedOut,
    OperatorIn,
    OperatorList,
    OperatorOut,
)
from holdfast.ledger.access import operators as ledger
from holdfast.ledger.access.actions import list_actions
from holdfast.ledger.access.console_sessions import list_sessions, revoke_session
from holdfast.ledger.access.keys import Scope
from holdfast.ledger.access.operators import SCOPES_OF_ROLE, Operator


class TeamEndpoints:
    def __init__(self, services: Services) -> None:
        self._database, self._console_url = services.database, services.settings.console_url

    async def operators(self, _request: Request) -> Answer:
        return json(OperatorList([OperatorOut.of(one) for one in await self._database.read(ledger.list_operators)]))

    async def invite(self, request: Request, given: OperatorIn) -> Answer:
        caller = caller_of(request)
        missing = SCOPES_OF_ROLE[given.role] - caller.scopes
        if missing:
            raise Problem(problems.FORBIDDEN, f"You cannot give scopes you do not have: {', '.join(sorted(missing))}.")

        def invite(connection: Connection) -> tuple[Operator, str]:
            now = self._database.now_ms(connection)
            known = ledger.find_by_email(connection, given.email)
            if known is not None and not known.scopes <= caller.scopes:
                raise Problem(problems.FORBIDDEN, "You cannot change an operator who may do more than you.")
            return ledger.invite(connection, given.email, given.name, given.role, now, caller.shown_name)

        operator, token = await self._database.write(invite)
        return json(InvitedOut.of_new(operator, f"{self._console_url}/console#/join/{token}"), 201)

    async def disable(self, request: Request, operator_id: str) -> Answer:
        caller = caller_of(request)

        def disable(connection: Connection) -> Operator:
            known = ledger.find_operator(connection, operator_id)
            if known is None:
                raise Problem(team_problems.OPERATOR_NOT_FOUND)
            if not known.scopes <= caller.scopes:
                raise Problem(problems.FORBIDDEN, "You cannot disable an operator who may do more than you.")
            return ledger.disable(connection, operator_id, self._database.now_ms(connection)) or known

        return json(OperatorOut.of(await self._database.write(disable)))

    async def sessions(self, request: Request) -> Answer:
        caller, own = caller_of(request), _own(request)
        found = await self._database.read(lambda c: list_sessions(c, self._database.now_ms(c), own))
        return json(ConsoleSessionList([ConsoleSessionOut.of(one, caller.session_id) for one in found]))

    async def revoke(self, request: Request, session_id: str) -> Answer:
        own = _own(request)
        if not await self._database.write(lambda c: revoke_session(c, session_id, own)):
            raise Problem(team_problems.SESSION_NOT_FOUND)
        return no_content()

    async def actions(self, _request: Request, wanted: ActionQuery) -> Answer:
        def page(connection: Connection) -> ActionPage:
            found, has_more = list_actions(
                connection,
                limit=wanted.limit,
                operator_id=wanted.operator_id,
                subject=wanted.subject,
                starting_after=wanted.starting_after,
            )
            return ActionPage([ActionOut.of(one) for one in found], has_more)

        return json(await self._database.read(page))


def _own(request: Request) -> str | None:
    """The operator whose sessions it is about; None for those of everybody."""
    caller = caller_of(request)
    if Scope.ADMIN in caller.scopes:
        return None
    if caller.operator_id is None:
        raise Problem(problems.FORBIDDEN, "Sessions of others need a service key with the scope `admin`.")
    return caller.operator_id
