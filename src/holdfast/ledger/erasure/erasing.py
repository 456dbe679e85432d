"""Erases a buyer from the ledger, in one transaction.

The model. The books need to know that two orders belong to one buyer, but not to whom. So a random pseudonym replaces
the ID in every row that `holdfast verify` replays, and every other row that names the buyer is deleted. History is
append-only, and its chain must stay intact. So an event that names the buyer is replaced by one with the pseudonym. Its
original hash is kept, like that of a pruned event, and the chain is computed with it. The hash of the replacement is in
`redacted_events`. A digest of those hashes is in a new event, `buyer.erased`, which the chain covers. So `verify`
proves that nothing was changed before the erasure, and that its results were not changed afterwards.

If it fails, nothing has happened. A trial runs everything and is rolled back.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Table, delete, func, insert, or_, select, update

from holdfast.domain.room.lottery import entry_of
from holdfast.errors import SettingsError
from holdfast.ledger.chain.leaves import NAMES, PART, hashes_of, prune_events, unkept
from holdfast.ledger.engine.facts import encode_facts
from holdfast.ledger.erasure.obstacles import obstacles
from holdfast.ledger.erasure.parked import TEXTS, naming
from holdfast.ledger.erasure.redaction import ACCOUNT, EMPTIED, ERASED, Redaction
from holdfast.ledger.schema import metadata
from holdfast.ledger.tables.chain import redacted_events
from holdfast.ledger.tables.money import payments, refunds, settlements, wallet_accounts, wallet_entries
from holdfast.ledger.tables.room import places
from holdfast.ledger.tables.sales import drop_units, orders
from holdfast.ledger.tables.stock import events, idempotency, pools, reservations
from holdfast.ledger.tables.webhooks import deliveries

TYPE = "buyer.erased"
# The books: `verify` compares their rows with the events, or with one another.
BOOKS = (reservations, idempotency, orders, settlements, payments, wallet_accounts, wallet_entries, places, drop_units)
# Kinds of values that name a buyer, by column.
NAMING = ("buyer_id", "owner_id", "account")
# Events scanned at a time.
SCANNED = 50_000

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class EraseRefused(SettingsError):
    pass


class Erasure(Struct, frozen=True):
    """The rows replaced and deleted, by table. `pools` are the pools that the buyer was in."""

    pseudonym: str
    replaced: dict[str, int]
    deleted: dict[str, int]
    pools: list[str]

    @property
    def is_empty(self) -> bool:
        return not self.replaced and not self.deleted


class RolledBack(Exception):
    """Raised at the end of a trial."""

    def __init__(self, erasure: Erasure) -> None:
        self.erasure = erasure


def naming_column(table: Table) -> Any:
    return next((table.c[name] for name in NAMING if name in table.c), None)


def erase(
    connection: Connection, redaction: Redaction, candidates: Sequence[int], scanned: int, now: int, *, trial: bool
) -> Erasure:
    """`candidates`: events up to `scanned` that may name the buyer (`find_candidates`)."""
    buyer_id = redaction.buyer_id
    skus = _lock_pools(connection, buyer_id)
    if found := obstacles(connection, buyer_id):
        raise EraseRefused(f"cannot erase {buyer_id} yet: {', '.join(found)}. Let them end, then try again.")
    learn(connection, redaction)
    entries = _entries(connection, redaction)
    seqs = [*candidates, *find_candidates(connection, redaction, scanned)]
    changed = list(_changed(connection, redaction, sorted({*seqs, *_of_theirs(connection, redaction)})))
    replaced = _replace_rows(connection, redaction)
    deleted = _delete_rows(connection, buyer_id)
    if changed or replaced:
        _replace_events(connection, redaction, changed, entries, now)
        replaced |= {events.name: len(changed)} if changed else {}
    erasure = Erasure(redaction.pseudonym, replaced, deleted, skus)
    if trial:
        raise RolledBack(erasure)
    return erasure


def _lock_pools(connection: Connection, buyer_id: str) -> list[str]:
    """In order of name. Every other transaction locks one pool only, so no cycle of waits can form."""
    owned = select(reservations.c.sku_id).where(reservations.c.owner_id == buyer_id).distinct()
    keyed = select(idempotency.c.sku_id).where(idempotency.c.owner_id == buyer_id).distinct()
    wanted = select(pools.c.sku_id).where(or_(pools.c.sku_id.in_(owned), pools.c.sku_id.in_(keyed)))
    return list(connection.execute(wanted.order_by(pools.c.sku_id).with_for_update()).scalars())


def learn(connection: Connection, redaction: Redaction) -> None:
    """The IDs of rows that belong to the buyer."""
    theirs = payments.c.buyer_id == redaction.buyer_id
    for query, known in (
        (select(orders.c.order_id).where(orders.c.buyer_id == redaction.buyer_id), redaction.ids["orders"]),
        (select(payments.c.payment_key).where(theirs), redaction.ids["payments"]),
        (
            select(refunds.c.refund_id).where(refunds.c.payment_key.in_(select(payments.c.payment_key).where(theirs))),
            redaction.ids["refunds"],
        ),
        (
            select(wallet_entries.c.transfer_id).where(
                wallet_entries.c.account == ACCOUNT + redaction.buyer_id, wallet_entries.c.kind == "credit"
            ),
            redaction.credits,
        ),
    ):
        known |= set(connection.execute(query).scalars())


# --- events


def find_candidates(connection: Connection, redaction: Redaction, after: int) -> list[int]:
    """The events after a number whose facts may name the buyer."""
    needle = _encode(redaction.buyer_id).decode()[1:]
    position = func.instr if connection.dialect.name == "sqlite" else func.strpos
    named = or_(position(events.c.facts, needle) > 0, events.c.sku_id == ACCOUNT + redaction.buyer_id)
    last = connection.execute(select(func.max(events.c.seq))).scalar() or 0
    found: list[int] = []
    for at in range(after, last, SCANNED):
        within = (events.c.seq > at, events.c.seq <= at + SCANNED)
        found += connection.execute(select(events.c.seq).where(*within, named)).scalars()
    return found


def _of_theirs(connection: Connection, redaction: Redaction) -> list[int]:
    """Events of the buyer's orders and refunds that do not name the buyer."""
    owned = select(reservations.c.reservation_id).where(reservations.c.owner_id == redaction.buyer_id)
    found = list(connection.execute(select(events.c.seq).where(events.c.reservation_id.in_(owned))).scalars())
    if refunded := sorted(redaction.ids["refunds"]):
        found += connection.execute(select(events.c.seq).where(events.c.subject.in_(refunded))).scalars()
    return found


def _changed(connection: Connection, redaction: Redaction, seqs: Sequence[int]) -> Iterator[dict[str, Any]]:
    for part in (seqs[at : at + PART] for at in range(0, len(seqs), PART)):
        wanted = select(*(events.c[name] for name in NAMES)).where(events.c.seq.in_(part)).order_by(events.c.seq)
        for row in connection.execute(wanted).mappings().all():
            if (left := redaction.event(dict(row))) is not None:
                yield left


def _replace_events(
    connection: Connection, redaction: Redaction, changed: list[dict[str, Any]], entries: list[dict[str, Any]], now: int
) -> None:
    """The transaction has already written, so the new event's number is assigned after its transaction ID."""
    seqs, erased_by = [row["seq"] for row in changed], _next_seq(connection)
    prune_events(connection, seqs, hashes_of(connection, unkept(connection, seqs)), erased_by)
    if changed:
        connection.execute(insert(events), changed)
    hashes = hashes_of(connection, seqs)
    left = [(seq, digest.hex()) for seq, digest in sorted(hashes.items())]
    if left:
        rows = [{"seq": seq, "erased_by": erased_by, "hash": digest} for seq, digest in left]
        connection.execute(insert(redacted_events), rows)
    facts: dict[str, object] = {"erased": erasure_digest(left)}
    if entries:
        facts["places"] = entries
    told = {"seq": erased_by, "sku_id": ACCOUNT + redaction.pseudonym, "type": TYPE, "at": now}
    told |= {"quantity": len(left), "subject": redaction.pseudonym, "facts": encode_facts(facts)}
    connection.execute(insert(events).values(**told))


def erasure_digest(left: Iterable[tuple[int, str]]) -> str:
    """The events that an erasure changed, by number, with their hashes."""
    return sha256("".join(f"{seq} {digest}\n" for seq, digest in left).encode()).hexdigest()


def _next_seq(connection: Connection) -> int:
    if connection.dialect.name == "sqlite":
        return connection.execute(select(func.max(events.c.seq))).scalar_one() + 1  # type: ignore[no-any-return]
    return connection.execute(  # type: ignore[no-any-return]
        select(func.nextval(func.pg_get_serial_sequence(events.name, "seq")))
    ).scalar_one()


# --- rows


def _entries(connection: Connection, redaction: Redaction) -> list[dict[str, Any]]:
    """Lines of published lists, which can no longer be computed."""
    wanted = select(places).where(places.c.buyer_id == redaction.buyer_id).order_by(places.c.sale_id, places.c.arrival)
    return [
        {"sale_id": row.sale_id, "arrival": row.arrival, "entry": _entry(row)} for row in connection.execute(wanted)
    ]


def _entry(place: Any) -> str:
    return place.entry or entry_of(place.sale_id, place.buyer_id, place.ticket_id)


def _replace_rows(connection: Connection, redaction: Redaction) -> dict[str, int]:
    _replace_in_secrets(connection, redaction)
    replaced = {}
    for table in BOOKS:
        column = naming_column(table)
        old, new = redaction.buyer_id, redaction.pseudonym
        if column.name == "account":
            old, new = ACCOUNT + old, ACCOUNT + new
        values = {column.name: new} | dict.fromkeys(EMPTIED.get(table.name, ()))
        replaced[table.name] = connection.execute(update(table).where(column == old).values(values)).rowcount
    if noted := sorted(redaction.ids["refunds"]):
        has_note = (refunds.c.refund_id.in_(noted), refunds.c.note.is_not(None))
        replaced[refunds.name] = connection.execute(update(refunds).where(*has_note).values(note=None)).rowcount
    replaced[deliveries.name] = _replace_in_deliveries(connection, redaction)
    return {name: count for name, count in replaced.items() if count}


def _replace_in_secrets(connection: Connection, redaction: Redaction) -> None:
    """Idempotency keys, tickets and the IDs of credits could identify the buyer."""
    keys = select(idempotency).where(idempotency.c.owner_id == redaction.buyer_id)
    for row in connection.execute(keys).all():
        own = (idempotency.c.sku_id == row.sku_id, idempotency.c.owner_id == row.owner_id, idempotency.c.key == row.key)
        new = {"key": redaction.replacement("key", row.key), "fingerprint": ERASED}
        connection.execute(update(idempotency).where(*own).values(new))
    for row in connection.execute(select(places).where(places.c.buyer_id == redaction.buyer_id)).all():
        new = {"ticket_id": redaction.replacement("ticket", row.ticket_id), "entry": _entry(row)}
        place = (places.c.sale_id == row.sale_id, places.c.arrival == row.arrival)
        connection.execute(update(places).where(*place).values(new))
    for credit in sorted(redaction.credits):
        new = {"transfer_id": redaction.replacement("credit", credit)}
        connection.execute(update(wallet_entries).where(wallet_entries.c.transfer_id == credit).values(new))


def _replace_in_deliveries(connection: Connection, redaction: Redaction) -> int:
    """Bodies that were sent or will be sent."""
    needle = _encode(redaction.buyer_id).decode()
    position = func.instr if connection.dialect.name == "sqlite" else func.strpos
    wanted = select(deliveries.c.delivery_id, deliveries.c.body).where(position(deliveries.c.body, needle) > 0)
    count = 0
    for delivery_id, body in connection.execute(wanted).all():
        new = _encode(_renamed(_decode(body), redaction)).decode()
        own = deliveries.c.delivery_id == delivery_id
        count += connection.execute(update(deliveries).where(own).values(body=new)).rowcount
    return count


def _renamed(value: Any, redaction: Redaction) -> Any:
    if isinstance(value, list):
        return [_renamed(each, redaction) for each in value]
    if isinstance(value, dict):
        return {name: _renamed(each, redaction) for name, each in redaction.row("", value).items()}
    return value


def _delete_rows(connection: Connection, buyer_id: str) -> dict[str, int]:
    """Whatever else names the buyer: limits, quotes, arrivals, addresses, and tables that will be added."""
    deleted = {}
    for table in metadata.sorted_tables:
        column = naming_column(table)
        if column is not None and table not in BOOKS and table.name != "claims":
            deleted[table.name] = connection.execute(delete(table).where(column == buyer_id)).rowcount
    for table in TEXTS:
        [row_id] = table.primary_key.columns
        ids = naming(connection, table, "dropped", buyer_id)
        for part in (ids[at : at + PART] for at in range(0, len(ids), PART)):
            connection.execute(delete(table).where(row_id.in_(part)))
        deleted[table.name] = len(ids)
    return {name: count for name, count in deleted.items() if count}
