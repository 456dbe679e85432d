"""A timeline as programs read it, the same from the command line and over HTTP."""

from typing import Any

from holdfast.audit.ask import Timeline
from holdfast.audit.timeline import Moment
from holdfast.http.times import rfc3339


def timeline_body(timeline: Timeline) -> dict[str, Any]:
    return {
        "buyer_id": timeline.owner_id,
        "refusals": timeline.refusals,
        "data": [_moment_body(moment) for moment in timeline.moments],
        "unreadable_segments": timeline.unreadable,
    }


def _moment_body(moment: Moment) -> dict[str, Any]:
    return {
        "at": rfc3339(moment.at),
        "type": moment.type,
        "what": moment.what,
        "sku_id": moment.sku_id,
        "sale_id": moment.sale_id,
        "quantity": moment.quantity,
        "reservation_id": moment.reservation_id,
        "outcome": moment.outcome,
        "available": moment.available,
        "next_return_at": None if moment.next_return_at is None else rfc3339(moment.next_return_at),
        "request_id": moment.request_id,
    }
