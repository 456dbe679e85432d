"""Links of the hash chain, which fix the history.

The model. A link covers the events after the previous link, in the order of their numbers, up to `last_seq`. It has the
root of a Merkle tree over their hashes. The links are the leaves of another, append-only tree. Its root, the head,
fixes every event of every link. Each link stores the largest complete subtree that ends with it, so the head of any
number of links can be computed from a few rows.

Anyone who can write to the database can recompute all of it. The proof is a head that is stored elsewhere
(`checkpoint.py`).
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, insert, select

from holdfast.domain.chain.merkle import Frontier, leaf_hash, peak_sizes, root_of
from holdfast.ledger.chain.leaves import read_hashes
from holdfast.ledger.tables.chain import links

# Hashes in memory at a time while a history is read, to within one link.
READ_MAX = 20_000

_encode = msgspec.json.Encoder(order="deterministic").encode


# Events hashed together as one leaf of a link's tree: this saves most of its nodes, and a third of the time. In turn,
# the proof of one event includes the hashes of the others in its leaf.
GROUP = 16


class Link(Struct, frozen=True):
    number: int
    last_seq: int
    events: int
    root: str
    linked_at: int

    @property
    def hash(self) -> bytes:
        return leaf_hash(_encode(self))


class Head(Struct, frozen=True):
    """The root over the first `links` links, and the last event they cover."""

    links: int = 0
    seq: int = 0
    root: str = ""


_COLUMNS = [links.c[name] for name in Link.__struct_fields__]
_LAST = select(*_COLUMNS).order_by(links.c.number.desc()).limit(1)


def groups_of(hashes: Sequence[bytes]) -> list[bytes]:
    """The leaves of the tree of a link that covers these events."""
    return [leaf_hash(b"".join(hashes[at : at + GROUP])) for at in range(0, len(hashes), GROUP)]


def last_link(connection: Connection) -> Link | None:
    row = connection.execute(_LAST).one_or_none()
    return None if row is None else Link(*row)


def read_links(connection: Connection, upto: int) -> list[Link]:
    rows = connection.execute(select(*_COLUMNS).where(links.c.number <= upto).order_by(links.c.number))
    return [Link(*row) for row in rows]


def read_head(connection: Connection) -> Head:
    last = last_link(connection)
    return Head() if last is None else Head(last.number, last.last_seq, root_at(connection, last.number))


def root_at(connection: Connection, size: int) -> str:
    return frontier_at(connection, size).root.hex()


def frontier_at(connection: Connection, size: int) -> Frontier:
    """The hashes of the first links, as stored."""
    peaks = select(links.c.peak).where(links.c.number.in_(peak_sizes(size))).order_by(links.c.number)
    return Frontier(size, [bytes.fromhex(peak) for peak in connection.execute(peaks).scalars()])


def append_link(connection: Connection, after: Link | None, upto: int, hashes: Sequence[bytes], now: int) -> Link:
    """Link these events, which follow the link `after`. Fails if another process has already appended that number."""
    number = 1 if after is None else after.number + 1
    link = Link(number, upto, len(hashes), root_of(groups_of(hashes)).hex(), now)
    peak = frontier_at(connection, number - 1).append(link.hash)
    connection.execute(insert(links).values(**msgspec.structs.asdict(link), peak=peak.hex()))
    return link


class Replayed(Struct, frozen=True):
    """A stored link, and the same link computed from the events."""

    link: Link
    after: int | None
    events: int
    is_intact: bool
    head: str
    """Of all links up to this one, computed from the events."""


def replay(connection: Connection) -> Iterator[Replayed]:
    """The history, recomputed from the events."""
    frontier, after = Frontier(), None
    for part in _parts(connection):
        hashes, at = read_hashes(connection, after, part[-1][0].last_seq), 0
        for link, stored_peak in part:
            begin = at
            while at < len(hashes) and hashes[at][0] <= link.last_seq:
                at += 1
            found = [digest for _, digest in hashes[begin:at]]
            computed = Link(
                frontier.size + 1, link.last_seq, len(found), root_of(groups_of(found)).hex(), link.linked_at
            )
            peak = frontier.append(computed.hash).hex()
            is_intact = (computed, peak) == (link, stored_peak)
            yield Replayed(link, after, len(found), is_intact, frontier.root.hex())
            after = link.last_seq


def _parts(connection: Connection) -> Iterator[list[tuple[Link, str]]]:
    part: list[tuple[Link, str]] = []
    size = 0
    for *values, peak in connection.execute(select(*_COLUMNS, links.c.peak).order_by(links.c.number)).all():
        part.append((Link(*values), peak))
        size += part[-1][0].events
        if size >= READ_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part
