"""Webhook deliveries: due ones, the result of each attempt, and retries."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    select,
    tuple_,
    update,
)

from holdfast.ledger.tables.webhooks import deliveries, webhooks

# Attempts kept per delivery.
HISTORY_MAX = 20

State = Literal["waiting", "done", "parked", "dropped"]


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One attempt. `error` is set if there was no response."""

    at: int
    ms: int
    status: int | None = None
    error: str | None = None


class Delivery(Struct, frozen=True):
    delivery_id: str
    webhook_id: str
    seq: int
    type: str
    subject: str
    body: str
    state: State
    attempts: int
    due_at: int
    fence: int
    reason: str | None
    history: tuple[Attempt, ...]
    created_at: int
    done_at: int | None

    @property
    def event(self) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.json.decode(self.body)
        return told


class Result(Struct, frozen=True):
    """How an attempt affects its delivery."""

    delivery: Delivery
    attempt: Attempt
    state: State
    due_at: int
    reason: str | None = None
    attempts: int = 0
    gone: bool = False


# Literals, not parameters: only then can the engines use the partial indexes.
_is_waiting = deliveries.c.state == literal_column("'waiting'")
_ahead = deliveries.alias("ahead")
_is_first = ~exists().where(
    _ahead.c.webhook_id == deliveries.c.webhook_id,
    _ahead.c.subject == deliveries.c.subject,
    _ahead.c.state == literal_column("'waiting'"),
    _ahead.c.seq < deliveries.c.seq,
)
_due = (
    select(deliveries)
    .where(
        deliveries.c.webhook_id == bindparam("of_webhook"),
        _is_waiting,
        deliveries.c.due_at <= bindparam("now"),
        deliveries.c.leased_until <= bindparam("now"),
        _is_first,
    )
    .order_by(deliveries.c.due_at, deliveries.c.seq)
    .limit(bindparam("at_most"))
)
_leasable = _due.with_for_update(skip_locked=True, of=deliveries)
_finish = (
    update(deliveries)
    .where(
        deliveries.c.delivery_id == bindparam("of_delivery"), deliveries.c.fence == bindparam("of_fence"), _is_waiting
    )
    .values(
        state=bindparam("new_state"),
        attempts=bindparam("new_attempts"),
        due_at=bindparam("new_due_at"),
        leased_until=0,
        reason=bindparam("new_reason"),
        history=bindparam("new_history"),
        done_at=bindparam("new_done_at"),
    )
)
_hold_back = (
    update(deliveries)
    .where(
        deliveries.c.webhook_id == bindparam("of_webhook"),
        deliveries.c.subject == bindparam("of_subject"),
        deliveries.c.seq > bindparam("after_seq"),
        deliveries.c.due_at < bindparam("new_due_at"),
        _is_waiting,
    )
    .values(due_at=bindparam("new_due_at"))
)


def anything_due(connection: Connection, webhook_ids: Sequence[str], now: int) -> bool:
    given = {"now": now, "at_most": 1}
    return any(connection.execute(_due, {"of_webhook": webhook_id, **given}).first() for webhook_id in webhook_ids)


def lease(connection: Connection, webhook_id: str, now: int, until: int, *, limit: int) -> list[Delivery]:
    """Lease the first due delivery of each subject."""
    rows = connection.execute(_leasable, {"of_webhook": webhook_id, "now": now, "at_most": limit}).all()
    mine = deliveries.c.delivery_id.in_([row.delivery_id for row in rows])
    if rows:
        connection.execute(update(deliveries).where(mine).values(leased_until=until, fence=deliveries.c.fence + 1))
    return [_from_row(row, fence=row.fence + 1) for row in rows]


def finish(connection: Connection, results: Sequence[Result], now: int) -> None:
    """Store the results of attempts. A process that overran its lease finds another fence and writes nothing."""
    if not results:
        return
    ordered = sorted(results, key=lambda result: result.delivery.delivery_id)
    connection.execute(_finish, [_finished(result, now) for result in ordered])
    waiting = [r for r in ordered if r.state == "waiting"]
    if waiting:
        connection.execute(_hold_back, [_held_back(result) for result in waiting])


def _finished(result: Result, now: int) -> dict[str, object]:
    history = [*result.delivery.history, result.attempt][-HISTORY_MAX:]
    return {
        "of_delivery": result.delivery.delivery_id,
        "of_fence": result.delivery.fence,
        "new_state": result.state,
        "new_attempts": result.attempts,
        "new_due_at": result.due_at,
        "new_reason": result.reason,
        "new_history": msgspec.json.encode(history).decode(),
        "new_done_at": now if result.state == "done" else None,
    }


def _held_back(result: Result) -> dict[str, object]:
    """Postpones the deliveries behind a failed one at least as long."""
    return {
        "of_webhook": result.delivery.webhook_id,
        "of_subject": result.delivery.subject,
        "after_seq": result.delivery.seq,
        "new_due_at": result.due_at,
    }


def find_delivery(connection: Connection, delivery_id: str) -> Delivery | None:
    row = connection.execute(select(deliveries).where(deliveries.c.delivery_id == delivery_id)).one_or_none()
    return None if row is None else _from_row(row)


def list_deliveries(
    connection: Connection,
    webhook_id: str,
    *,
    limit: int,
    state: State | None = None,
    starting_after: str | None = None,
) -> tuple[list[Delivery], bool]:
    """Newest first. Returns one page, and whether there is more."""
    newest = (deliveries.c.seq.desc(), deliveries.c.delivery_id.desc())
    query = select(deliveries).where(deliveries.c.webhook_id == webhook_id).order_by(*newest).limit(limit + 1)
    if state is not None:
        query = query.where(deliveries.c.state == state)
    if starting_after is not None:
        last = select(_ahead.c.seq, _ahead.c.delivery_id).where(_ahead.c.delivery_id == starting_after)
        query = query.where(tuple_(deliveries.c.seq, deliveries.c.delivery_id) < last.scalar_subquery())
    page = [_from_row(row) for row in connection.execute(query)]
    return page[:limit], len(page) > limit


# --- retries


def retry_delivery(connection: Connection, delivery_id: str, now: int) -> bool:
    """Retry one delivery under its existing ID. False if it does not exist."""
    found = find_delivery(connection, delivery_id)
    if found is None:
        return False
    if found.state != "waiting":
        _send_again(connection, [delivery_id], now)
    # This delivery and those behind it are due now.
    line = (deliveries.c.webhook_id == found.webhook_id) & (deliveries.c.subject == found.subject)
    connection.execute(update(deliveries).where(line, _is_waiting, deliveries.c.due_at > now).values(due_at=now))
    return True


def drop_delivery(connection: Connection, delivery_id: str, now: int) -> bool:
    """Drop a parked delivery. False if it is not parked."""
    parked = (deliveries.c.delivery_id == delivery_id) & (deliveries.c.state == "parked")
    return connection.execute(update(deliveries).where(parked).values(state="dropped", done_at=now)).rowcount > 0


def replay_since(
    connection: Connection, webhook_id: str, since: int, now: int, *, after_seq: int, limit: int
) -> tuple[int, int | None]:
    """Retry deliveries created since then, in portions. Returns how many, and where to continue."""
    query = select(deliveries.c.delivery_id, deliveries.c.seq).where(
        deliveries.c.webhook_id == webhook_id,
        deliveries.c.seq > after_seq,
        deliveries.c.created_at >= since,
        deliveries.c.created_at <= now,
        deliveries.c.state != "waiting",
    )
    rows = connection.execute(query.order_by(deliveries.c.seq).limit(limit)).all()
    _send_again(connection, [row.delivery_id for row in rows], now)
    return len(rows), rows[-1].seq if len(rows) == limit else None


def _send_again(connection: Connection, ids: Sequence[str], now: int) -> None:
    again = {"state": "waiting", "attempts": 0, "due_at": now, "leased_until": 0, "reason": None, "done_at": None}
    ended = deliveries.c.delivery_id.in_(ids) & (deliveries.c.state != "waiting")
    connection.execute(update(deliveries).where(ended).values(again))


# --- maintenance


def backlog(connection: Connection) -> list[tuple[str, int, int | None]]:
    """By webhook: how many deliveries wait, and since when."""
    ours = and_(deliveries.c.webhook_id == webhooks.c.webhook_id, _is_waiting)
    query = select(webhooks.c.webhook_id, func.count(deliveries.c.seq), func.min(deliveries.c.created_at))
    query = query.select_from(webhooks.outerjoin(deliveries, ours)).group_by(webhooks.c.webhook_id)
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def prune_deliveries(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete up to `limit` that were done or dropped before this."""
    return _delete(connection, deliveries.c.done_at < older_than, limit)


def prune_parked(connection: Connection, older_than: int, *, limit: int) -> int:
    """Delete up to `limit` parked deliveries created before this."""
    is_parked = deliveries.c.state == literal_column("'parked'")
    return _delete(connection, is_parked & (deliveries.c.created_at < older_than), limit)


def delete_deliveries(connection: Connection, webhook_id: str, *, limit: int) -> int:
    return _delete(connection, deliveries.c.webhook_id == webhook_id, limit)


def _delete(connection: Connection, condition: ColumnElement[bool], limit: int) -> int:
    some = select(deliveries.c.delivery_id).where(condition).limit(limit)
    return connection.execute(delete(deliveries).where(deliveries.c.delivery_id.in_(some))).rowcount


def _from_row(row: Row[Any], fence: int | None = None) -> Delivery:
    return Delivery(
        row.delivery_id,
        row.webhook_id,
        row.seq,
        row.type,
        row.subject,
        row.body,
        row.state,
        row.attempts,
        row.due_at,
        row.fence if fence is None else fence,
        row.reason,
        tuple(msgspec.json.decode(row.history or "[]", type=list[Attempt])),
        row.created_at,
        row.done_at,
    )
