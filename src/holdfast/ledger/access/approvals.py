"""Requests that wait for a second operator.

A request is stored as it was sent and carried out once another operator has approved it. The decision is one guarded
update, so it is made once. A request whose outcome is unknown stays approved without a status: approving it again
carries it out again, which is safe because every request stored here is idempotent.

A request from the command line, or with a key that no named operator made (above all the admin key), could come from
any operator, including the approver. If there are two operators, both must approve it: the first is stored on the
pending request.
"""

import hashlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, select, update
from uuid_utils import uuid7

from holdfast.ledger.access.actions import BEGUN, ENDED, Actor
from holdfast.ledger.access.keys import Scope
from holdfast.ledger.access.operators import SCOPES_OF_ROLE, Role
from holdfast.ledger.tables.access import approvals, operator_actions, operators, service_keys

# How long a request waits for approval.
PENDING_MS = 24 * 3_600_000
HOUR_MS = 3_600_000
# Keys that were made by keys.
_DEPTH_MAX = 20


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


class Asked(Struct, frozen=True):
    """A request, as it will be carried out."""

    action: str
    subject: str | None
    parameters: list[str]
    body: bytes
    idempotency_key: str | None


class Approval(Struct, frozen=True):
    approval_id: str
    asked: Asked
    requested_by_id: str | None
    requested_by: str
    requested_at: int
    expires_at: int
    state: ApprovalState
    # While pending: the first of two approvers.
    decided_by_id: str | None
    decided_by: str | None
    decided_at: int | None
    status: int | None
    reason: str | None


def ask(connection: Connection, asked: Asked, by: Actor, now: int) -> Approval:
    """A repeated request returns the pending one."""
    _forget_expired(connection, now)
    fingerprint = _fingerprint(asked)
    same = (approvals.c.fingerprint == fingerprint, approvals.c.requested_by == by.name, _is_pending(now))
    known = connection.execute(select(approvals).where(*same).limit(1)).one_or_none()
    if known is not None:
        return _from_row(known, now)
    values = {
        "approval_id": f"apr_{uuid7().hex}",
        "action": asked.action,
        "subject": asked.subject,
        "parameters": msgspec.json.encode(asked.parameters).decode(),
        "body": asked.body.decode(),
        "idempotency_key": asked.idempotency_key,
        "fingerprint": fingerprint,
        "requested_by_id": by.operator_id,
        "requested_by": by.name,
        "requested_at": now,
        "expires_at": now + PENDING_MS,
        "state": ApprovalState.PENDING.value,
    }
    return _from_row(connection.execute(insert(approvals).values(**values).returning(approvals)).one(), now)


def _forget_expired(connection: Connection, now: int) -> None:
    """Bodies may contain personal data."""
    is_over = (approvals.c.state == ApprovalState.PENDING, approvals.c.expires_at <= now, approvals.c.body.is_not(None))
    connection.execute(update(approvals).where(*is_over).values(body=None))


def _fingerprint(asked: Asked) -> str:
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()


def find_approval(connection: Connection, approval_id: str, now: int) -> Approval | None:
    row = connection.execute(select(approvals).where(approvals.c.approval_id == approval_id)).one_or_none()
    return None if row is None else _from_row(row, now)


def list_approvals(
    connection: Connection, now: int, *, limit: int, state: ApprovalState | None = None
) -> list[Approval]:
    """Newest first."""
    wanted = select(approvals).order_by(approvals.c.requested_at.desc(), approvals.c.approval_id.desc()).limit(limit)
    if state is ApprovalState.PENDING:
        wanted = wanted.where(_is_pending(now))
    elif state is ApprovalState.EXPIRED:
        wanted = wanted.where(approvals.c.state == ApprovalState.PENDING, approvals.c.expires_at <= now)
    elif state is not None:
        wanted = wanted.where(approvals.c.state == state)
    return [_from_row(row, now) for row in connection.execute(wanted)]


def approve(connection: Connection, approval_id: str, by: Actor, now: int, *, has_others: bool) -> Approval | None:
    """The updated approval; if it is still pending, it needs another operator. None if it was decided before.
    `has_others`: other operators could approve it, too."""
    locked = select(approvals.c.approval_id).where(approvals.c.approval_id == approval_id).with_for_update()
    connection.execute(locked)
    found = find_approval(connection, approval_id, now)
    assert found is not None
    if found.state is ApprovalState.APPROVED and found.status is None:
        # The original approver stays on the record; this one only repeats the execution.
        return found
    if found.state is ApprovalState.PENDING and found.requested_by_id is None:
        is_theirs = found.decided_by_id == by.operator_id
        if is_theirs and has_others:
            return found
        if found.decided_by_id is None and has_others:
            _decide(connection, approval_id, ApprovalState.PENDING, by, now)
            return find_approval(connection, approval_id, now)
        if found.decided_by_id is not None and not is_theirs:
            by = Actor(f"{found.decided_by} and {by.name}", by.operator_id)
    is_decided = _decide(connection, approval_id, ApprovalState.APPROVED, by, now)
    return find_approval(connection, approval_id, now) if is_decided else None


def reject(connection: Connection, approval_id: str, by: Actor, now: int) -> bool:
    if not _decide(connection, approval_id, ApprovalState.REJECTED, by, now):
        return False
    connection.execute(update(approvals).where(approvals.c.approval_id == approval_id).values(body=None))
    return True


def _decide(connection: Connection, approval_id: str, state: ApprovalState, by: Actor, now: int) -> bool:
    values = {"state": state.value, "decided_by_id": by.operator_id, "decided_by": by.name, "decided_at": now}
    own = (approvals.c.approval_id == approval_id, _is_pending(now))
    return connection.execute(update(approvals).where(*own).values(**values)).rowcount == 1


def finish(connection: Connection, approval_id: str, status: int, reason: str | None) -> None:
    """Store the outcome: carried out, or refused at execution. If two operators approve it at the same time, the first
    outcome is kept, because the second may only say that it is already done."""
    own = (approvals.c.approval_id == approval_id, approvals.c.status.is_(None))
    connection.execute(update(approvals).where(*own).values(status=status, reason=reason, body=None))


def _is_pending(now: int) -> ColumnElement[bool]:
    return and_(approvals.c.state == ApprovalState.PENDING, approvals.c.expires_at > now)


def _from_row(row: Row[Any], now: int) -> Approval:
    values = row._asdict()
    names = ("approval_id", "requested_by_id", "requested_by", "requested_at", "expires_at")
    decided = ("decided_by_id", "decided_by", "decided_at", "status", "reason")
    asked = Asked(
        values["action"],
        values["subject"],
        msgspec.json.decode(values["parameters"], type=list[str]),
        (values["body"] or "").encode(),
        values["idempotency_key"],
    )
    fields = {name: values[name] for name in (*names, *decided)}
    found = Approval(asked=asked, state=ApprovalState(values["state"]), **fields)
    if found.state is ApprovalState.PENDING and found.expires_at <= now:
        return replace(found, state=ApprovalState.EXPIRED)
    return found


# --- who


def person_behind(connection: Connection, operator_id: str | None, key_id: str | None) -> str | None:
    """The operator, even if they act through a key that they made, or that such a key made."""
    maker = operator_id or key_id
    for _ in range(_DEPTH_MAX):
        made = select(service_keys.c.created_by).where(service_keys.c.key_id == maker)
        found = connection.execute(made).one_or_none()
        if found is None:
            break
        maker = found.created_by
    return maker


def deciders(connection: Connection, admits: Callable[[frozenset[Scope]], bool]) -> Sequence[str]:
    """The operators who may decide: they have joined, are not disabled, and may carry out the action themselves."""
    joined = (operators.c.joined_at.is_not(None), operators.c.disabled_at.is_(None))
    rows = connection.execute(select(operators.c.operator_id, operators.c.role).where(*joined))
    return [row.operator_id for row in rows if admits(SCOPES_OF_ROLE[Role(row.role)])]


def count_actions(connection: Connection, action: str, name: str, since: int) -> int:
    """How many actions of a kind an operator took, not counting refused ones."""
    c = operator_actions.c
    own = (c.action == action, c.at >= since, c.operator == name)
    begun = select(func.count()).where(*own, c.phase == BEGUN)
    refused = select(func.count()).where(*own, c.phase == ENDED, c.status >= 400)
    return int(connection.execute(begun).scalar_one() - connection.execute(refused).scalar_one())
