"""How far a stream has come, and which process publishes it."""

from msgspec import Struct
from sqlalchemy import BigInteger, Connection, case, cast, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from holdfast.ledger.events.webhooks import latest_seq
from holdfast.ledger.tables.stock import events
from holdfast.ledger.tables.streams import streams

KAFKA = "kafka"


class Stream(Struct, frozen=True):
    position: int = 0
    update_number: int = 0
    fence: int = 0


def ensure_stream(connection: Connection, name: str) -> None:
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    connection.execute(insert(streams).values(name=name).on_conflict_do_nothing())


def find_stream(connection: Connection, name: str) -> Stream:
    columns = [streams.c[field] for field in Stream.__struct_fields__]
    row = connection.execute(select(*columns).where(streams.c.name == name)).one_or_none()
    return Stream() if row is None else Stream(*row)


def take_stream(connection: Connection, name: str, holder: str, now: int, until: int) -> int | None:
    """Take or renew the lease. Returns its fence, which changes with the holder; None if another process has the
    lease."""
    ensure_stream(connection, name)
    is_free = or_(streams.c.holder == holder, streams.c.holder.is_(None), streams.c.leased_until <= now)
    is_new = case((streams.c.holder == holder, 0), else_=1)
    values = {"holder": holder, "leased_until": until, "fence": streams.c.fence + cast(is_new, BigInteger)}
    taken = update(streams).where(streams.c.name == name, is_free).values(values).returning(streams.c.fence)
    fence: int | None = connection.execute(taken).scalar()
    return fence


def advance_stream(connection: Connection, name: str, fence: int, position: int, update_number: int, now: int) -> bool:
    """False if another process has taken over the lease."""
    values = {"position": position, "update_number": update_number, "updated_at": now}
    is_ours = [streams.c.name == name, streams.c.fence == fence]
    return connection.execute(update(streams).where(*is_ours).values(values)).rowcount > 0


def release_stream(connection: Connection, name: str, fence: int, now: int) -> None:
    is_ours = [streams.c.name == name, streams.c.fence == fence]
    connection.execute(update(streams).where(*is_ours).values(holder=None, leased_until=now))


def stream_lag(connection: Connection, name: str) -> tuple[int, int | None]:
    """At most how many events are unpublished (numbers may have gaps), and since when."""
    position = find_stream(connection, name).position
    following = select(events.c.at).where(events.c.seq > position).order_by(events.c.seq).limit(1)
    oldest = connection.execute(following).scalar_one_or_none()
    return (0, None) if oldest is None else (latest_seq(connection) - position, oldest)
