"""Events of a sale as a whole, in order of time, with their author: opened, paused, restocked, rate changed.

The author comes from the record of operators' actions. Changes that were not made through the API (by a schedule or the
command line) appear only in the events of the sale.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, select

from holdfast.domain.sale.sale import Sale
from holdfast.ledger.access.actions import RecordedAction, list_actions
from holdfast.ledger.tables.stock import events

SHOWN_MAX = 100
# An action is recorded before it is carried out; its event is recorded when it is carried out.
TOGETHER_MS = 10_000
_SAME = {"pause_sale": "paused", "resume_sale": "resumed", "close_sale": "closed"}
_EVENTS = ("sale.opened", "sale.closed", "sale.changed", "sale.restocked")
_BY_ITSELF = frozenset({"sale_id", "updated_at", "opened_at", "closed_at", "state", "problem"})


class SaleMark(Struct, frozen=True):
    at: int
    kind: str
    # None: automatic, or unknown.
    by: str | None = None
    detail: str | None = None


def marks_of(connection: Connection, sale: Sale) -> list[SaleMark]:
    actions, _ = list_actions(connection, limit=SHOWN_MAX, subject=f"sale:{sale.sale_id}")
    done = [mark for action in actions if action.status is not None and action.status < 300 for mark in _done(action)]
    others = [mark for mark in _happened(connection, sale) if not any(_is_same(mark, one) for one in done)]
    return sorted([*done, *others], key=lambda mark: mark.at)[-SHOWN_MAX:]


def _is_same(event: SaleMark, action: SaleMark) -> bool:
    return event.kind == action.kind and 0 <= event.at - action.at <= TOGETHER_MS


def _done(action: RecordedAction) -> Iterator[SaleMark]:
    sent: Mapping[str, Any] = action.request or {}
    if action.action in _SAME:
        yield SaleMark(action.at, _SAME[action.action], action.operator)
    elif action.action == "restock_sale":
        yield SaleMark(action.at, "restocked", action.operator, f"{sent.get('units', 0):+,} units")
    elif action.action == "change_sale":
        yield SaleMark(action.at, "changed", action.operator, ", ".join(sorted(sent)))
    elif action.action == "change_room":
        yield from _room_changes(action.at, action.operator, sent)


def _room_changes(at: int, by: str, sent: Mapping[str, Any]) -> Iterator[SaleMark]:
    if "rate_per_second" in sent:
        rate = sent["rate_per_second"]
        yield SaleMark(at, "rate_changed", by, "as the sale says" if rate is None else f"{rate:,} per second")
    if "paused" in sent:
        yield SaleMark(at, "line_paused" if sent["paused"] else "line_resumed", by)
    if sent.get("admit"):
        yield SaleMark(at, "admitted", by, f"{sent['admit']:,} people")


def _happened(connection: Connection, sale: Sale) -> Iterator[SaleMark]:
    c = events.c
    wanted = select(c.at, c.type, c.facts).where(c.sku_id == sale.sku_id, c.type.in_(_EVENTS))
    newest = wanted.where(c.subject == sale.sale_id).order_by(c.seq.desc()).limit(SHOWN_MAX)
    for row in connection.execute(newest):
        kind = row.type.removeprefix("sale.")
        if kind != "changed":
            yield SaleMark(row.at, kind)
            continue
        [values] = msgspec.json.decode(row.facts)["sales"] if row.facts else [{}]
        if "paused" in values:
            yield SaleMark(row.at, "paused" if values["paused"] else "resumed")
        changed = sorted(set(values) - _BY_ITSELF - {"paused"})
        if changed:
            yield SaleMark(row.at, "changed", detail=", ".join(changed))
