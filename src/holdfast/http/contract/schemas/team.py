"""Operators, their sessions, and what they did."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.access.passwords import PASSWORD_MAX, PASSWORD_MIN
from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import EMAIL, PRINTABLE, AnyId, Limit, OperatorId, Timestamp
from holdfast.ledger.access.actions import RecordedAction
from holdfast.ledger.access.console_sessions import ListedSession
from holdfast.ledger.access.keys import Scope
from holdfast.ledger.access.operators import Operator, Role

Email = Annotated[str, Meta(max_length=200, pattern=EMAIL, examples=["ada@example.com"])]
Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=PRINTABLE, examples=["Ada Lovelace"])]
NewPassword = Annotated[str, Meta(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)]
GivenPassword = Annotated[str, Meta(min_length=1, max_length=PASSWORD_MAX)]


class OperatorIn(Struct, frozen=True, forbid_unknown_fields=True):
    email: Email
    name: Name
    role: Annotated[Role, Meta(description="Only with scopes that the caller has.")]


class OperatorOut(Struct, frozen=True):
    operator_id: str
    email: str
    name: str
    role: Role
    scopes: list[Scope]
    created_at: Timestamp
    created_by: Annotated[str | None, Meta(description="Who invited them.")]
    joined_at: Annotated[Timestamp | None, Meta(description="Null until they first signed in.")]
    disabled_at: Timestamp | None
    invitation_expires_at: Annotated[Timestamp | None, Meta(description="The expiry of an unused invitation.")]

    @classmethod
    def of(cls, operator: Operator) -> "OperatorOut":
        return copy_fields(cls, operator, scopes=sorted(operator.scopes))


class InvitedOut(OperatorOut, frozen=True):
    link: Annotated[str, Meta(description="Send it to the operator. Shown only once; it works once.")]

    @classmethod
    def of_new(cls, operator: Operator, link: str) -> "InvitedOut":
        return copy_fields(cls, operator, scopes=sorted(operator.scopes), link=link)


class OperatorList(Struct, frozen=True):
    data: list[OperatorOut]


class ConsoleSessionOut(Struct, frozen=True):
    session_id: str
    operator_id: str | None
    key_id: Annotated[str | None, Meta(description="The service key that started the session.")]
    name: Annotated[str | None, Meta(description="The operator's or the key's; null for the admin key.")]
    method: Annotated[str, Meta(description="`key`, `invitation`, `password` or `oidc`.")]
    created_at: Timestamp
    expires_at: Timestamp
    is_current: Annotated[bool, Meta(description="Whether this request used it.")]

    @classmethod
    def of(cls, session: ListedSession, current: str | None) -> "ConsoleSessionOut":
        return copy_fields(cls, session, is_current=session.session_id == current)


class ConsoleSessionList(Struct, frozen=True):
    data: list[ConsoleSessionOut]


class ActionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    operator_id: OperatorId | None = None
    subject: Annotated[AnyId, Meta(description="As in `sale:lamp`, `order:ord_…`.")] | None = None
    limit: Limit = 20
    starting_after: Annotated[AnyId, Meta(description="The last action ID of the previous page.")] | None = None


class ActionOut(Struct, frozen=True):
    seq: int
    action_id: str
    at: Timestamp
    operator_id: Annotated[str | None, Meta(description="Null for keys.")]
    operator: Annotated[str, Meta(description="The operator's name, or which key it was.")]
    action: Annotated[str, Meta(description="The operation, as in `close_sale`.")]
    subject: str | None
    request: Annotated[Any, Meta(description="What was sent.")]
    before: Annotated[Any, Meta(description="The subject's rows before, without secrets and buyers.")]
    after: Any
    status: Annotated[int | None, Meta(description="The status of the response; null if it was interrupted.")]
    reason: Annotated[str | None, Meta(description="Why it was refused.")]
    request_id: str | None
    trace_id: Annotated[str | None, Meta(description="The ID of the request's trace, if it was traced.")]

    @classmethod
    def of(cls, action: RecordedAction) -> "ActionOut":
        return copy_fields(cls, action)


class ActionPage(Struct, frozen=True):
    data: list[ActionOut]
    has_more: bool


class SignInOptionsOut(Struct, frozen=True):
    password: Annotated[bool, Meta(description="Whether anybody was invited.")]
    oidc: Annotated[bool, Meta(description="Whether there is an issuer to sign in with.")]


class PasswordIn(Struct, frozen=True, forbid_unknown_fields=True):
    email: Email
    password: GivenPassword


class InvitationIn(Struct, frozen=True, forbid_unknown_fields=True):
    token: Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE, description="The end of the link.")]
    password: NewPassword
