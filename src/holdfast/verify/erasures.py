"""Erased buyers: the remaining events are exactly as the erasure recorded them, and no others were replaced."""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Connection, exists, func, select

from holdfast.ledger.chain.leaves import hashes_of
from holdfast.ledger.erasure.erasing import TYPE, erasure_digest
from holdfast.ledger.tables.chain import pruned_events, redacted_events
from holdfast.ledger.tables.stock import events
from holdfast.verify.check import Computed

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def _wrong(connection: Connection) -> Iterator[dict[str, Any]]:
    yield from _replaced_by_nobody(connection)
    recorded = set[int]()
    told = select(events.c.seq, events.c.quantity, events.c.facts).where(events.c.type == TYPE).order_by(events.c.seq)
    for seq, count, facts in connection.execute(told).all():
        recorded.add(seq)
        of_it = select(redacted_events.c.seq, redacted_events.c.hash).where(redacted_events.c.erased_by == seq)
        rows = [(row.seq, row.hash) for row in connection.execute(of_it.order_by(redacted_events.c.seq))]
        if (len(rows), erasure_digest(rows)) != (count, _decode(facts).get("erased")):
            yield {"seq": seq, "wrong": "digest"}
    stray = select(redacted_events.c.erased_by).distinct()
    yield from ({"seq": seq, "wrong": "erasure"} for seq in set(connection.execute(stray).scalars()) - recorded)
    yield from _changed_since(connection)


def _replaced_by_nobody(connection: Connection) -> Iterator[dict[str, Any]]:
    """Events that still exist although only their hashes should."""
    is_redacted = exists().where(redacted_events.c.seq == events.c.seq)
    found = select(events.c.seq).join(pruned_events, pruned_events.c.seq == events.c.seq).where(~is_redacted)
    yield from ({"seq": seq, "wrong": "replaced"} for seq in connection.execute(found).scalars())
    is_kept = exists().where(pruned_events.c.seq == redacted_events.c.seq)
    unkept = select(redacted_events.c.seq).where(~is_kept)
    yield from ({"seq": seq, "wrong": "hash"} for seq in connection.execute(unkept).scalars())


def _changed_since(connection: Connection) -> Iterator[dict[str, Any]]:
    last = select(redacted_events.c.seq, func.max(redacted_events.c.erased_by).label("by")).group_by("seq").subquery()
    is_last = (redacted_events.c.seq == last.c.seq) & (redacted_events.c.erased_by == last.c.by)
    rows = connection.execute(select(redacted_events.c.seq, redacted_events.c.hash).join(last, is_last)).all()
    # An event that was pruned since then no longer exists.
    found = hashes_of(connection, sorted(row.seq for row in rows))
    yield from (
        {"seq": row.seq, "wrong": "changed"} for row in rows if found.get(row.seq, b"").hex() not in ("", row.hash)
    )


CHECKS = (
    Computed(
        "erasures_recorded",
        "Events from which a buyer was erased are as the erasure left them, and no others were replaced.",
        redacted_events,
        _wrong,
    ),
)
