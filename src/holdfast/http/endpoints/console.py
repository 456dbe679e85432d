"""The console's session: a service key is exchanged once for a cookie that can be revoked."""

from holdfast.access.console_sessions import LASTS_S, SCHEME
from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems
from holdfast.http.contract.message import Answer, Request, caller_of, json
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import SessionOut
from holdfast.http.protection.session_cookie import set_cookie


class ConsoleEndpoints:
    def __init__(self, services: Services) -> None:
        self._authenticator = services.authenticator

    async def sign_in(self, request: Request) -> Answer:
        scheme, key = _credentials(request)
        if caller_of(request).buyer_id is not None or scheme == SCHEME:
            raise Problem(problems.FORBIDDEN, "Sign in with a service key.")
        begun = await self._authenticator.sessions.begin(key)
        if begun is None:
            raise Problem(problems.UNAUTHORIZED, "This service key is unknown or was revoked.")
        token, session = begun
        cookie = set_cookie(token, LASTS_S, request.header)
        return json(SessionOut.of(session), 200, ("set-cookie", cookie))

    async def show(self, request: Request) -> Answer:
        scheme, token = _credentials(request)
        session = await self._authenticator.sessions.find(token) if scheme == SCHEME else None
        if session is not None:
            return json(SessionOut.of(session))
        return json(SessionOut(None, None, sorted(caller_of(request).scopes), None))

    async def sign_out(self, request: Request) -> Answer:
        scheme, token = _credentials(request)
        if scheme == SCHEME:
            await self._authenticator.sessions.end(token)
            self._authenticator.forget(request.authorization or "")
        return Answer(204, [("set-cookie", set_cookie("", 0, request.header))], b"")


def _credentials(request: Request) -> tuple[str, str]:
    scheme, _, token = (request.authorization or "").partition(" ")
    return scheme, token
