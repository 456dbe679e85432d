"""Outages in the ledger. Each process writes those that it saw; the report merges those that overlap."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy import Connection, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.tables.outages import outages

# Two outages of the same service that are at most this far apart are merged.
GAP_MS = 10_000
# The maximum per sale in a report.
READ_MAX = 10_000


class Outage(Struct, frozen=True):
    subject: str
    began_at: int
    last_at: int
    reason: str
    refused: int = 0


def write_outages(connection: Connection, process: str, seen: Sequence[Outage]) -> None:
    """Write each outage; one that has continued is updated."""
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    written = insert(outages).values([{"process": process, **asdict(one)} for one in seen])
    changed = {name: written.excluded[name] for name in ("last_at", "reason", "refused")}
    connection.execute(written.on_conflict_do_update(index_elements=["process", "subject", "began_at"], set_=changed))


def outages_between(connection: Connection, since: int, until: int) -> list[Outage]:
    """The outages of all processes, in order of time."""
    columns = [outages.c[name] for name in Outage.__struct_fields__]
    within = (outages.c.last_at >= since, outages.c.began_at <= until)
    order = (outages.c.subject, outages.c.began_at, outages.c.process)
    rows = connection.execute(select(*columns).where(*within).order_by(*order).limit(READ_MAX))
    found = [Outage(*row) for row in rows]
    merged = [one for _, same in groupby(found, lambda one: one.subject) for one in _merged(same)]
    return sorted(merged, key=lambda one: (one.began_at, one.subject))


def _merged(seen: Iterable[Outage]) -> list[Outage]:
    merged: list[Outage] = []
    for one in seen:
        if merged and one.began_at <= merged[-1].last_at + GAP_MS:
            last = merged[-1]
            merged[-1] = replace(last, last_at=max(last.last_at, one.last_at), refused=last.refused + one.refused)
        else:
            merged.append(one)
    return merged


def prune_outages(connection: Connection, older_than: int, *, limit: int) -> int:
    key = (outages.c.process, outages.c.subject, outages.c.began_at)
    old = select(*key).where(outages.c.last_at < older_than).limit(limit)
    return connection.execute(delete(outages).where(tuple_(*key).in_(old))).rowcount
