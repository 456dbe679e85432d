"""The record of operators' actions: append-only, two rows for each action.

The first row is written before the action is carried out, so no action can happen without a record. The second row has
the outcome. An action without an outcome was interrupted and may or may not have been carried out.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, Table, insert, select

from holdfast.ledger.tables.access import console_sessions, operator_actions, operators, service_keys
from holdfast.ledger.tables.money import refunds, settlements
from holdfast.ledger.tables.sales import orders, sales
from holdfast.ledger.tables.stock import pools
from holdfast.ledger.tables.webhooks import deliveries, webhooks

BEGUN, ENDED = "begun", "ended"
# Secrets and buyers' personal data are left out, because this record can never be erased.
_HIDDEN = frozenset(
    {
        *("secret", "previous_secret", "secret_hash", "password_hash", "invitation_hash", "key_hash"),
        *("buyer_id", "owner_id", "history", "body", "tracking", "method", "customer", "entry", "reference"),
        # The reason for a refund is free text.
        "note",
    }
)
# By action: request fields that are hidden for that action only.
_HIDDEN_SENT = dict.fromkeys(("refund_order", "revoke_buyer", "revoke_token"), frozenset({"reason"}))
_encode = msgspec.json.Encoder(order="deterministic").encode
# By path parameter: the tables that hold its state, and the column to look it up by.
_SUBJECTS: Mapping[str, tuple[tuple[Table, str], ...]] = {
    "sale_id": ((sales, "sale_id"), (pools, "sale_id")),
    "sku_id": ((pools, "sku_id"),),
    "order_id": ((orders, "order_id"),),
    "key_id": ((service_keys, "key_id"),),
    "webhook_id": ((webhooks, "webhook_id"),),
    "operator_id": ((operators, "operator_id"),),
    "session_id": ((console_sessions, "session_id"),),
}

# By the prefix of a parked ID.
_PARKED: Mapping[str, tuple[Table, str]] = {
    "settlement": (settlements, "reservation_id"),
    "refund": (refunds, "refund_id"),
    "delivery": (deliveries, "delivery_id"),
}


class Actor(Struct, frozen=True):
    """A named operator, or the name of a key."""

    name: str
    operator_id: str | None = None


COMMAND_LINE = Actor("the command line")


class Action(Struct, frozen=True):
    action_id: str
    action: str
    subject: str | None
    by: Actor
    request_id: str | None = None
    trace_id: str | None = None


class RecordedAction(Struct, frozen=True):
    seq: int
    action_id: str
    at: int
    operator_id: str | None
    operator: str
    action: str
    subject: str | None
    request: Any
    before: Any
    after: Any
    # None: the action was interrupted.
    status: int | None
    reason: str | None
    request_id: str | None
    trace_id: str | None


def begin_action(connection: Connection, action: Action, state: str | None, request: bytes | None, now: int) -> None:
    _write(connection, action, BEGUN, now, state=state, request=_sent(action, request))


def _sent(action: Action, body: bytes | None) -> str | None:
    """The fields of an accepted body."""
    given = msgspec.json.decode(body) if body else None
    if not isinstance(given, dict):
        return None
    hidden = _HIDDEN_SENT.get(action.action, frozenset())
    shown = {name: value for name, value in _without_hidden(given).items() if name not in hidden}
    return _encode(shown).decode()


def end_action(
    connection: Connection, action: Action, state: str | None, status: int, reason: str | None, now: int
) -> None:
    _write(connection, action, ENDED, now, state=state, status=status, reason=reason)


def _write(connection: Connection, action: Action, phase: str, now: int, **more: object) -> None:
    who = {"operator_id": action.by.operator_id, "operator": action.by.name}
    what = {"action_id": action.action_id, "action": action.action, "subject": action.subject}
    of_request = {"request_id": action.request_id, "trace_id": action.trace_id}
    values = {"at": now, "phase": phase, **of_request, **who, **what, **more}
    connection.execute(insert(operator_actions).values(**values))


def read_state(connection: Connection, subjects: Mapping[str, str]) -> str | None:
    """The rows of everything the path names, as JSON."""
    found = dict[str, object]()
    for name, value in subjects.items():
        for table, column in _tables_of(name, value):
            id_ = value.partition(":")[2] if name == "parked_id" else value
            row = connection.execute(select(table).where(table.c[column] == id_).limit(1)).one_or_none()
            if row is not None:
                found[table.name] = _shown(row)
    return _encode(found).decode() if found else None


def _tables_of(name: str, value: str) -> tuple[tuple[Table, str], ...]:
    if name == "parked_id":
        kind = value.partition(":")[0]
        return (_PARKED[kind],) if kind in _PARKED else ()
    return _SUBJECTS.get(name, ())


def _shown(row: Row[Any]) -> dict[str, object]:
    return _without_hidden(row._asdict())


def _without_hidden(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _HIDDEN}


def list_actions(
    connection: Connection,
    *,
    limit: int,
    operator_id: str | None = None,
    subject: str | None = None,
    starting_after: str | None = None,
) -> tuple[list[RecordedAction], bool]:
    """Newest first, each with its outcome."""
    c = operator_actions.c
    wanted = select(operator_actions).where(c.phase == BEGUN).order_by(c.seq.desc()).limit(limit + 1)
    if operator_id is not None:
        wanted = wanted.where(c.operator_id == operator_id)
    if subject is not None:
        wanted = wanted.where(c.subject == subject)
    if starting_after is not None:
        last = operator_actions.alias()
        found = select(last.c.seq).where(last.c.action_id == starting_after, last.c.phase == BEGUN)
        wanted = wanted.where(c.seq < found.scalar_subquery())
    begun = connection.execute(wanted).all()
    ids = [row.action_id for row in begun]
    ended = connection.execute(select(operator_actions).where(c.phase == ENDED, c.action_id.in_(ids)))
    outcomes = {row.action_id: row for row in ended}
    return [_joined(row, outcomes.get(row.action_id)) for row in begun[:limit]], len(begun) > limit


def _joined(begun: Row[Any], ended: Row[Any] | None) -> RecordedAction:
    return RecordedAction(
        begun.seq,
        begun.action_id,
        begun.at,
        begun.operator_id,
        begun.operator,
        begun.action,
        begun.subject,
        _decoded(begun.request),
        _decoded(begun.state),
        None if ended is None else _decoded(ended.state),
        None if ended is None else ended.status,
        None if ended is None else ended.reason,
        begun.request_id,
        begun.trace_id,
    )


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
