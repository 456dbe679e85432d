"""How named operators sign in to the console: by password, by invitation, by OIDC.

Each answer sets the session's cookie, so it must only be sent to the console's own page: another site's form could
otherwise sign its visitor in as somebody else.
"""

from urllib.parse import parse_qs

from holdfast.access.console_sessions import LASTS_S
from holdfast.access.oidc import PENDING_S, SignInRefused
from holdfast.access.operators import NewSession
from holdfast.bootstrap.services import Services
from holdfast.http.contract import problems, team_problems
from holdfast.http.contract.message import Answer, Request, json
from holdfast.http.contract.problem import NO_STORE, Problem
from holdfast.http.contract.schemas.operate import SessionOut
from holdfast.http.contract.schemas.team import InvitationIn, PasswordIn, SignInOptionsOut
from holdfast.http.protection.session_cookie import (
    MARK,
    is_https,
    is_same_origin,
    pending_in,
    set_cookie,
    set_pending_cookie,
)
from holdfast.http.protection.sign_in_limits import SignInLimits
from holdfast.ledger.access.operators import list_operators

CALLBACK = "/v1/console/oidc/callback"
_CONSOLE = "/console"


class SignInEndpoints:
    def __init__(self, services: Services, limits: SignInLimits) -> None:
        self._database, self._operators, self._limits = services.database, services.operators, limits
        self._console_url = services.settings.console_url

    async def options(self, _request: Request) -> Answer:
        known = await self._database.read(list_operators)
        return json(SignInOptionsOut(bool(known), self._operators.oidc is not None))

    async def with_password(self, request: Request, given: PasswordIn) -> Answer:
        _ensure_console(request)
        account = given.email.lower()
        self._limits.begin(request, account)
        begun = await self._operators.sign_in(account, given.password)
        if begun is None:
            raise Problem(team_problems.SIGN_IN_REFUSED)
        self._limits.succeeded(request, account)
        return _signed_in(request, begun)

    async def accept(self, request: Request, given: InvitationIn) -> Answer:
        _ensure_console(request)
        self._limits.begin(request)
        begun = await self._operators.accept(given.token, given.password)
        if begun is None:
            raise Problem(team_problems.INVITATION_NOT_FOUND)
        return _signed_in(request, begun)

    async def begin_oidc(self, request: Request) -> Answer:
        oidc = self._operators.oidc
        if oidc is None:
            return _back("no_issuer")
        try:
            url, pending = await oidc.begin(f"{self._origin(request)}{CALLBACK}")
        except SignInRefused as refused:
            return _back(refused.reason)
        return _redirect(url, ("set-cookie", set_pending_cookie(pending, PENDING_S, is_tls=self._is_tls(request))))

    async def finish_oidc(self, request: Request) -> Answer:
        oidc, given, is_tls = self._operators.oidc, parse_qs(request.query), self._is_tls(request)
        pending = pending_in(request.header, is_tls=is_tls)
        code, state = given.get("code", [""])[0], given.get("state", [""])[0]
        if oidc is None or not code or not state or pending is None:
            return _back("sign_in_expired")
        try:
            token, _ = await self._operators.sign_in_as(await oidc.finish(pending, state, code))
        except SignInRefused as refused:
            return _back(refused.reason)
        ended = ("set-cookie", set_pending_cookie("", 0, is_tls=is_tls))
        return _redirect(_CONSOLE, ended, ("set-cookie", set_cookie(token, LASTS_S, request.header)))

    def _is_tls(self, request: Request) -> bool:
        """Whether the issuer sends the browser back by TLS."""
        return self._origin(request).startswith("https://")

    def _origin(self, request: Request) -> str:
        if self._console_url:
            return self._console_url
        return f"{'https' if is_https(request.header) else 'http'}://{request.header('host') or 'localhost'}"


def _ensure_console(request: Request) -> None:
    if request.header(MARK) is None or not is_same_origin(request.header):
        raise Problem(problems.FORBIDDEN, "Only the console's own page can sign in.")


def _signed_in(request: Request, begun: NewSession) -> Answer:
    token, session = begun
    return json(SessionOut.of(session), 200, ("set-cookie", set_cookie(token, LASTS_S, request.header)))


def _redirect(url: str, *headers: tuple[str, str]) -> Answer:
    return Answer(302, [("location", url), NO_STORE, ("referrer-policy", "no-referrer"), *headers], b"")


def _back(reason: str) -> Answer:
    """To the sign-in page, which shows why."""
    return _redirect(f"{_CONSOLE}#/sign-in/{reason}")
