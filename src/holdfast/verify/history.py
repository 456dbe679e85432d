"""History is unchanged: the events match the chain, and the chain matches checkpoints that were stored elsewhere.

The chain alone detects changes by someone who did not recompute it. If it was recomputed, only a checkpoint out of that
person's reach can show the change.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, func, select

from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.chain.links import Replayed, replay
from holdfast.ledger.tables.chain import links
from holdfast.ledger.tables.stock import events
from holdfast.verify.check import EXAMPLES_MAX, Computed, Finding, Level


class History(Struct, frozen=True):
    """How far history is proven, up to which event and time, and how many events came after that."""

    proven_seq: int
    proven_at: int | None
    events_after: int


def _rewritten(connection: Connection) -> Iterator[dict[str, Any]]:
    for each in replay(connection):
        if not each.is_intact:
            after, link = each.after or 0, each.link
            yield {
                "link": link.number,
                "after_seq": after,
                "last_seq": link.last_seq,
                "events": link.events,
                "found": each.events,
            }


CHECKS = (
    Computed(
        "history_unchanged",
        "No event was changed, deleted, inserted or reordered since it was linked.",
        links,
        _rewritten,
    ),
)


def compare(connection: Connection, checkpoints: Sequence[Checkpoint]) -> tuple[Finding, History]:
    heads = {each.link.number: each for each in replay(connection)}
    differing = [c for c in checkpoints if not _matches(c, heads)]
    finding = Finding(
        "history_matches_checkpoints",
        "History up to each checkpoint is the one that the checkpoint was made of.",
        Level.FAILURE,
        len(checkpoints),
        len(differing),
        [_example(c, heads) for c in differing[:EXAMPLES_MAX]],
    )
    proven = max([c for c in checkpoints if c not in differing], key=lambda c: c.links, default=None)
    return finding, _history(connection, proven)


def _matches(checkpoint: Checkpoint, heads: dict[int, Replayed]) -> bool:
    found = heads.get(checkpoint.links)
    return found is not None and (found.head, found.link.last_seq) == (checkpoint.root, checkpoint.seq)


def _example(checkpoint: Checkpoint, heads: dict[int, Replayed]) -> dict[str, Any]:
    return {
        "at": checkpoint.at,
        "links": checkpoint.links,
        "seq": checkpoint.seq,
        "ledger": checkpoint.ledger,
        "links_found": min(checkpoint.links, len(heads)),
    }


def _history(connection: Connection, proven: Checkpoint | None) -> History:
    seq = 0 if proven is None else proven.seq
    after = select(func.count()).select_from(events).where(events.c.seq > seq)
    return History(seq, None if proven is None else proven.at, connection.execute(after).scalar_one())
