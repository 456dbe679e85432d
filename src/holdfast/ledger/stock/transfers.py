"""Transfers of units from one pool to another, in the ledger.

A give is written together with the donor's smaller total, and a take together with the receiver's larger one, each in
the transaction that reads it from a journal. So a give that Redis lost never happened, one that the ledger has is never
lost, and the totals of the shards plus the units in transfer always add up. The ledger refuses a journal entry that
gives under a number out of order, or takes units that are not in transfer.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from sqlalchemy import Connection, bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert

from holdfast.domain.stock.command import Take
from holdfast.domain.stock.state import Changes, Counters, Transfer
from holdfast.ledger.tables.stock import is_in_transfer, transfers

_take = (
    update(transfers)
    .where(
        transfers.c.donor == bindparam("from_donor"),
        transfers.c.receiver == bindparam("to_receiver"),
        transfers.c.number == bindparam("of_number"),
    )
    .values(taken_at=bindparam("at"))
)


class ExpectedTransfers(Struct):
    """The next numbers under which a pool may give and take."""

    last_given: dict[str, int]
    waiting: dict[tuple[str, int], int]

    def allows(self, changes: Changes) -> bool:
        last, waiting = dict(self.last_given), dict(self.waiting)
        for given in changes.given:
            if given.number != last.get(given.receiver, 0) + 1:
                return False
            last[given.receiver] = given.number
        return all(waiting.pop((taken.donor, taken.number), None) == taken.units for taken in changes.taken)

    def advance(self, changes: Changes) -> None:
        self.last_given |= {given.receiver: given.number for given in changes.given}
        for taken in changes.taken:
            self.waiting.pop((taken.donor, taken.number))


def expected_transfers(connection: Connection, pool: str, batches: Sequence[Changes]) -> ExpectedTransfers:
    """Runs no query if nothing is given or taken."""
    if not any(changes.given or changes.taken for changes in batches):
        return ExpectedTransfers({}, {})
    waiting = {(t.donor, t.number): t.units for t in waiting_for(connection, [pool])}
    return ExpectedTransfers(dict(counters_of(connection, pool).given), waiting)


def counters_of(connection: Connection, pool: str) -> Counters:
    donor, receiver, last = transfers.c.donor, transfers.c.receiver, func.max(transfers.c.number)
    given = select(receiver, last).where(donor == pool).group_by(receiver)
    taken = select(donor, last).where(receiver == pool, ~is_in_transfer).group_by(donor)
    return Counters(*({row[0]: row[1] for row in connection.execute(query)} for query in (given, taken)))


def waiting_for(connection: Connection, receivers: Sequence[str]) -> list[Transfer]:
    """The units in transfer to these pools, in the order in which they must be taken."""
    query = select(transfers).where(transfers.c.receiver.in_(receivers), is_in_transfer)
    return _transfers(connection.execute(query.order_by(transfers.c.receiver, transfers.c.donor, transfers.c.number)))


def takes_for(connection: Connection, receiver: str) -> list[Take]:
    """The commands with which a pool takes the units in transfer to it."""
    return [Take(t.donor, t.number, t.units) for t in waiting_for(connection, [receiver])]


def left_over(connection: Connection, given_before: int) -> list[str]:
    """The receivers of transfers older than this."""
    query = select(transfers.c.receiver).where(is_in_transfer, transfers.c.given_at < given_before)
    return sorted(connection.execute(query.distinct()).scalars())


def store_transfers(connection: Connection, changes: Changes, now: int) -> None:
    insert_given(connection, changes.given, now)
    finish(connection, changes.taken, now)


def insert_given(connection: Connection, given: Iterable[Transfer], now: int) -> None:
    rows = [
        {"donor": t.donor, "receiver": t.receiver, "number": t.number, "units": t.units, "given_at": now} for t in given
    ]
    if rows:
        connection.execute(insert(transfers), rows)


def insert_once(connection: Connection, given: Transfer, now: int) -> bool:
    """Whether it is new. Transfers exist only with Redis, where the ledger is PostgreSQL."""
    row = {"donor": given.donor, "receiver": given.receiver, "number": given.number, "units": given.units}
    statement = postgresql_insert(transfers).values(given_at=now, **row).on_conflict_do_nothing()
    return connection.execute(statement).rowcount > 0


def finish(connection: Connection, taken: Iterable[Transfer], now: int) -> None:
    for t in taken:
        connection.execute(_take, {"from_donor": t.donor, "to_receiver": t.receiver, "of_number": t.number, "at": now})


def _transfers(rows: Iterable[object]) -> list[Transfer]:
    return [Transfer(row.donor, row.receiver, row.number, row.units) for row in rows]  # type: ignore[attr-defined]
