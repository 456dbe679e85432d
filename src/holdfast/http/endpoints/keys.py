"""Service keys: created, listed and revoked by an operator."""

from sqlalchemy import Connection

from holdfast.access.identity import Caller
from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, caller_of, json, no_content
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import KeyIn, NewServiceKeyOut, ServiceKeyList, ServiceKeyOut
from holdfast.ledger.access.console_sessions import is_standing_session
from holdfast.ledger.access.keys import (
    Scope,
    ServiceKey,
    create_key,
    lineage,
    list_keys,
    lock_standing_key,
    revoke_key,
)
from holdfast.ledger.access.operators import lock_enabled_operator


class KeyEndpoints:
    def __init__(self, services: Services) -> None:
        self._database = services.database

    async def list(self, _request: Request) -> Answer:
        return json(ServiceKeyList([ServiceKeyOut.of(key) for key in await self._database.read(list_keys)]))

    async def create(self, request: Request, given: KeyIn) -> Answer:
        scopes, caller = frozenset(given.scopes), caller_of(request)
        own = caller.scopes | {Scope.MONEY} if caller.is_legacy else caller.scopes
        if not scopes <= own:
            missing = ", ".join(sorted(scopes - own))
            raise Problem(problems.FORBIDDEN, f"You cannot give scopes you do not have: {missing}.")

        def create(connection: Connection) -> tuple[ServiceKey, str]:
            _ensure_standing(connection, caller)
            now, by = self._database.now_ms(connection), caller.key_id or caller.operator_id
            return create_key(connection, given.name, scopes, now, by)

        made, key = await self._database.write(create)
        return json(NewServiceKeyOut.of_new(made, key), 201)

    async def revoke(self, request: Request, key_id: str) -> Answer:
        caller = caller_of(request)

        def revoke(connection: Connection) -> bool:
            _ensure_standing(connection, caller)
            # A key with `operate` from before the scope `admin` may revoke itself and what it made.
            if Scope.ADMIN not in caller.scopes and key_id not in lineage(connection, caller.key_id or ""):
                raise Problem(problems.FORBIDDEN, "Revoking other keys needs a service key with the scope `admin`.")
            return revoke_key(connection, key_id, self._database.now_ms(connection))

        if not await self._database.write(revoke):
            raise Problem(problems.KEY_NOT_FOUND)
        return no_content()


def _ensure_standing(connection: Connection, caller: Caller) -> None:
    """Its key or session may have ended since authentication: a request can take seconds to arrive."""
    if caller.key_id is not None and not lock_standing_key(connection, caller.key_id):
        raise Problem(problems.UNAUTHORIZED, "This service key was revoked.")
    if caller.operator_id is not None and not lock_enabled_operator(connection, caller.operator_id):
        raise Problem(problems.UNAUTHORIZED, "This operator was disabled.")
    # After the lock, because a change of role holds the same one while it ends the operator's sessions.
    if caller.session_id is not None and not is_standing_session(connection, caller.session_id):
        raise Problem(problems.UNAUTHORIZED, "This session was ended.")
