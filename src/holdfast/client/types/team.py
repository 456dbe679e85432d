# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `team`."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from holdfast.client.types.operate_2 import Scope

if TYPE_CHECKING:
    Role = Literal["admin", "finance", "seller", "support", "viewer"]
    ApprovalState = Literal["approved", "expired", "pending", "rejected"]
else:
    Role = str
    ApprovalState = str


class Operator(Struct, frozen=True, kw_only=True):
    operator_id: str
    email: str
    name: str
    role: Role
    scopes: list[Scope]
    created_at: datetime
    created_by: str | None = None  # Who invited them.
    joined_at: datetime | None = None  # Null until they first signed in.
    disabled_at: datetime | None = None
    invitation_expires_at: datetime | None = None  # The expiry of an unused invitation.


class OperatorList(Struct, frozen=True, kw_only=True):
    data: list[Operator]


class Invited(Struct, frozen=True, kw_only=True):
    operator_id: str
    email: str
    name: str
    role: Role
    scopes: list[Scope]
    created_at: datetime
    created_by: str | None = None  # Who invited them.
    joined_at: datetime | None = None  # Null until they first signed in.
    disabled_at: datetime | None = None
    invitation_expires_at: datetime | None = None  # The expiry of an unused invitation.
    link: str  # Send it to the operator. Shown only once; it works once.


class ConsoleSession(Struct, frozen=True, kw_only=True):
    session_id: str
    operator_id: str | None = None
    key_id: str | None = None  # The service key that started the session.
    name: str | None = None  # The operator's or the key's; null for the admin key.
    method: str  # `key`, `invitation`, `password` or `oidc`.
    created_at: datetime
    expires_at: datetime
    is_current: bool  # Whether this request used it.


class ConsoleSessionList(Struct, frozen=True, kw_only=True):
    data: list[ConsoleSession]


class Action(Struct, frozen=True, kw_only=True):
    seq: int
    action_id: str
    at: datetime
    operator_id: str | None = None  # Null for keys.
    operator: str  # The operator's name, or which key it was.
    action: str  # The operation, as in `close_sale`.
    subject: str | None = None
    request: Any  # What was sent.
    before: Any  # The subject's rows before, without secrets and buyers.
    after: Any
    status: int | None = None  # The status of the response; null if it was interrupted.
    reason: str | None = None  # Why it was refused.
    request_id: str | None = None
    trace_id: str | None = None  # The ID of the request's trace, if it was traced.


class ActionPage(Struct, frozen=True, kw_only=True):
    data: list[Action]
    has_more: bool


class Approval(Struct, frozen=True, kw_only=True):
    approval_id: str
    action: str  # The operation, as in `close_sale`.
    subject: str | None = None  # As in `sale:lamp`.
    request: Any  # The request body; null once it is decided or has expired.
    requested_by_id: str | None = None  # Null for a key that no operator made.
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    state: ApprovalState
    decided_by: str | None = None  # While pending: the first of two approvers.
    decided_at: datetime | None = None
    status: int | None = None  # The response's status once carried out. Null although approved: unknown; approve again.
    reason: str | None = None  # Why carrying it out was refused.


class ApprovalList(Struct, frozen=True, kw_only=True):
    data: list[Approval]


class SignInOptions(Struct, frozen=True, kw_only=True):
    password: bool  # Whether anybody was invited.
    oidc: bool  # Whether there is an issuer to sign in with.


class Session(Struct, frozen=True, kw_only=True):
    key_id: str | None = None  # Null for the admin key.
    name: str | None = None
    scopes: list[Scope]
    expires_at: datetime | None = None  # Null if a service key was sent instead.
    operator_id: str | None = None  # Null for keys.
    role: Role | None = None
