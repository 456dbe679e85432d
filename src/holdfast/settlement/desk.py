"""The ledger's part of settlement: any number of reservations of one pool, in one transaction.

The model. Under the lock of the pool the desk reads how each case stands, takes in what is new about it (what the
provider said, what went wrong), and goes on for as long as the next step is the ledger's own: debit a wallet, note an
attempt, claim the units, write the order and end the reservation, return the units, owe a refund. What is left after
that is a step outside (`Case.step`), for the settler. So no step of the ledger is ever half done, and one commit
serves everybody who is waiting at the same pool.

Where the database is the gate, the reservation ends in this same transaction. Where Redis is, the ledger lets the units
go (`Journal.claim`), which makes them sold whatever Redis believes, and the gate is told afterwards: `telling`.

What happens when it fails. Nothing was written. A worker that lost its lease meanwhile finds another number on the row,
and nothing of what it brings is taken in.
"""

from collections.abc import Collection, Sequence

from msgspec.structs import replace
from sqlalchemy import Connection

from holdfast.domain.command import Command, Move, Transition
from holdfast.domain.outcome import Outcome
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.rulebook import decide
from holdfast.domain.sale import PaymentKind
from holdfast.domain.settling import PaymentMark, Step, refund_id_of
from holdfast.domain.state import State
from holdfast.ledger.batch import BatchQueries, LockedPool
from holdfast.ledger.database import Database
from holdfast.ledger.journal import Journal, claimed_units
from holdfast.ledger.sales import find_sale
from holdfast.ledger.settle_batch import Account, Item, SettleQueries
from holdfast.ledger.wallet import SALES
from holdfast.settlement.case import LOOK_AGAIN_MS, Case, Failed, News

_ENDED = (Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED)
Asked = tuple[Item, News | None]


class _Room:
    """What the ledger may still let go."""

    def __init__(self, locked: LockedPool, claimed: dict[str, int], *, unbounded: bool) -> None:
        pool = locked.pool
        self._left = 0 if pool is None else pool.total - pool.sold - sum(claimed.values())
        self._unbounded = unbounded

    def has(self, units: int) -> bool:
        # Where the database is the gate, the units of a settling reservation are held, and can go to nobody else.
        return self._unbounded or units <= self._left

    def take(self, units: int) -> None:
        self._left -= units


class _Sitting:
    """One transaction: what its cases have in common, and what they leave to be written."""

    def __init__(self, now: int, room: _Room, balances: dict[Account, int], *, tells: bool) -> None:
        self.now = now
        self.room = room
        self.balances = balances
        self.changed_balances: dict[Account, int] = {}
        self.entries: list[tuple[object, ...]] = []
        self.refunds: list[tuple[object, ...]] = []
        self.ended: list[tuple[Case, Transition]] = []
        self.tells = tells

    def advance(self, case: Case) -> None:
        """As far as the ledger can go by itself."""
        while case.is_open:
            case.has_room = self.room.has(case.work["quantity"])
            match case.step():
                case Step.PAY:
                    self._pay(case)
                case Step.ATTEMPT:
                    case.set_mark(PaymentMark.ATTEMPTED, self.now)
                    case.fresh = True
                case Step.CLAIM:
                    case.set_mark(PaymentMark.CLAIMED, self.now)
                    case.fresh = True
                case Step.ORDER:
                    self.room.take(case.work["quantity"])
                    self._end(case, Transition.CONFIRM, "confirmed")
                case Step.FAIL:
                    assert case.payment is not None
                    self._end(case, Transition.FAIL, "failed", case.payment["reason"] or case.payment["state"])
                case Step.REFUND:
                    self._refund(case)
                case Step.PARK:
                    case.close("parked", "parked", case.work["reason"] or _why_parked(case))
                case Step.DONE:
                    _close(case)
                case _:
                    return

    def _pay(self, case: Case) -> None:
        account, amount = case.account, case.amount
        if amount and self.balances.get(account, 0) < amount:
            case.set_mark(PaymentMark.DECLINED, self.now, "insufficient_funds")
            return
        case.set_mark(PaymentMark.CAPTURED, self.now)
        if not amount:
            return
        self.balances[account] -= amount
        self.changed_balances[account] = self.balances[account]
        assert case.payment is not None
        transfer, (buyer_id, currency) = case.payment["payment_key"], account
        about = ("purchase", case.reservation_id)
        left = self.balances[account]
        self.entries += [
            (transfer, f"buyer:{buyer_id}", currency, -amount, *about, left, self.now),
            (transfer, SALES, currency, amount, *about, None, self.now),
        ]

    def _end(self, case: Case, ending: Transition, outcome: str, reason: str | None = None) -> None:
        self.ended.append((case, ending))
        case.end_with(ending, told=not self.tells, outcome=outcome, reason=reason)
        # Whoever decided tells the gate at once; others only if that was not heard of.
        case.work["due_at"] = self.now + LOOK_AGAIN_MS

    def _refund(self, case: Case) -> None:
        payment = case.payment
        assert payment is not None
        key, cause = payment["payment_key"], "sold_elsewhere" if case.status is Status.CONFIRMED else "paid_too_late"
        money = (payment["amount"], payment["currency"])
        if payment["amount"]:
            refund_id = refund_id_of(key, cause)
            self.refunds.append((refund_id, key, case.work["sku_id"], *money, cause, self.now, self.now))
        case.close("done", "refunded", case.work["reason"] or cause)


def _close(case: Case) -> None:
    if case.has_successor:
        case.close("done", "reacquired", f"paid too late; goes on as {case.work['successor_id']}")
        return
    # How one ended that was told to the gate was counted when that was decided.
    case.close("done", None if case.work["state"] == "telling" else "ended", case.work["reason"])


def _why_parked(case: Case) -> str:
    return "the ledger has no such sale" if case.sale is None else f"the reservation is {case.status or 'not known'}"


class Desk:
    def __init__(self, database: Database, queries: BatchQueries, *, has_redis: bool, attempts_max: int) -> None:
        self._database = database
        self._pools = queries
        self._has_redis = has_redis
        self._attempts_max = attempts_max
        self._journal = Journal(queries)
        self.queries = SettleQueries(database.dialect_name)

    def settle_due(self, connection: Connection, sku_id: str, limit: int) -> list[Case]:
        """What is due at a pool, for as far as the ledger can go by itself."""
        locked = self._pools.lock(connection, sku_id, ())
        now = locked.now(connection, self._database)
        due = self.queries.due(connection, sku_id, now, limit)
        cases = self._settle(connection, locked, [(item, None) for item in due], now) if due else []
        return [case for case in cases if case is not None]

    def settle(self, connection: Connection, sku_id: str, asked: Sequence[Asked]) -> list[Case | None]:
        """Each case as it stands afterwards; None for whoever has lost the lease."""
        locked = self._pools.lock(connection, sku_id, ())
        return self._settle(connection, locked, asked, locked.now(connection, self._database))

    def _settle(
        self, connection: Connection, locked: LockedPool, asked: Sequence[Asked], now: int
    ) -> list[Case | None]:
        tells = self._has_redis and locked.position.epoch > 0
        claimed = claimed_units(connection, locked.sku_id) if tells else {}
        cases = self._open(connection, asked, claimed)
        balances = self.queries.lock_balances(connection, _accounts(cases))
        sitting = _Sitting(now, _Room(locked, claimed, unbounded=not tells), balances, tells=tells)
        for case, (_, news) in zip(cases, asked, strict=True):
            if case is None:
                continue
            if news is not None:
                case.absorb(news, now)
            # Whoever is put off does not go on now, but may have come to the end of it.
            if not isinstance(news, Failed) or case.step() is Step.PARK:
                sitting.advance(case)
        self._store(connection, locked, [case for case in cases if case is not None], sitting)
        return cases

    def _open(self, connection: Connection, asked: Sequence[Asked], claimed: dict[str, int]) -> list[Case | None]:
        ids = [item.reservation_id for item, _ in asked]
        work = self.queries.lock_work(connection, ids)
        reservations = self.queries.reservations(connection, ids)
        successors = {id_: row.successor_id for id_, row in work.items() if row.successor_id is not None}
        payments = self.queries.payments(connection, ids)
        known: Collection[str] = ()
        if successors:
            known = self.queries.reservations(connection, list(successors.values()))
            payments = self.queries.payments_of_successors(connection, successors) | payments
        # There is no order as long as a reservation is settling and nothing was captured for it.
        may_have_order = [
            id_ for id_ in ids if id_ in payments or id_ not in reservations or reservations[id_].status in _ENDED
        ]
        orders = self.queries.orders(connection, may_have_order) if may_have_order else {}
        sales = {sale_id: find_sale(connection, sale_id) for sale_id in {row.sale_id for row in work.values()}}
        cases: list[Case | None] = []
        for item, _ in asked:
            row = work.get(item.reservation_id)
            if row is None or row.fence != item.fence:
                cases.append(None)
                continue
            id_ = item.reservation_id
            case = Case(
                row, reservations.get(id_), payments.get(id_), orders.get(id_), sales[row.sale_id], self._attempts_max
            )
            case.has_successor = row.successor_id in known
            if id_ in claimed and row.state == "waiting":
                # Somebody else confirmed it, and the journal has not told of that yet.
                case.status = Status.CONFIRMED
            cases.append(case)
        return cases

    def _store(self, connection: Connection, locked: LockedPool, cases: Sequence[Case], sitting: _Sitting) -> None:
        queries, now = self.queries, sitting.now
        queries.store_payments(connection, [c.payment for c in cases if c.is_payment_changed and c.payment])
        queries.store_work(connection, [c.work for c in cases if c.is_work_changed])
        queries.store_balances(connection, sitting.changed_balances, now)
        if sitting.entries:
            queries.insert_entries(connection, sitting.entries)
        if sitting.refunds:
            queries.insert_refunds(connection, sitting.refunds)
        if sitting.ended:
            self._end(connection, locked, sitting)

    def _end(self, connection: Connection, locked: LockedPool, sitting: _Sitting) -> None:
        sold = [case for case, ending in sitting.ended if ending is Transition.CONFIRM]
        # Before the confirmation, which would take it that somebody else has the money.
        self._order(connection, sold, sitting.now)
        if sitting.tells:
            wanted = [replace(_reservation(case), status=Status.CONFIRMED) for case in sold]
            epoch = locked.position.epoch
            granted = self._journal.claim(connection, locked.sku_id, epoch, wanted, sitting.now)
            assert granted == len(wanted), "the ledger refuses what it just had room for"
            return
        self._decide(connection, locked, sitting)

    def _decide(self, connection: Connection, locked: LockedPool, sitting: _Sitting) -> None:
        """As the gate would, from what is read already: all of it under the lock of the pool."""
        moves: list[Command] = [Move(ending, case.reservation_id) for case, ending in sitting.ended]
        known = {case.reservation_id: _reservation(case) for case, _ in sitting.ended}
        decision = decide(State(locked.sku_id, locked.pool, known), moves, sitting.now)
        assert all(v.outcome is Outcome.MOVED for v in decision.verdicts), "it cannot end, though it was settling"
        # The orders are written, so there is nothing left to do for the sale.
        locked.sale_id = None
        self._pools.store(connection, locked, decision.changes, sitting.now)

    def _order(self, connection: Connection, sold: Sequence[Case], now: int) -> None:
        groups: dict[tuple[str, PaymentKind], list[Reservation]] = {}
        for case in sold:
            assert case.sale is not None
            groups.setdefault((case.sale.sale_id, case.sale.payment), []).append(_reservation(case))
        for (sale_id, payment), reservations in groups.items():
            self._pools.sales.order(connection, sale_id, reservations, payment, now)


def _reservation(case: Case) -> Reservation:
    assert case.reservation is not None
    return case.reservation


def _accounts(cases: Sequence[Case | None]) -> set[Account]:
    return {
        case.account
        for case in cases
        if case is not None and case.kind is PaymentKind.WALLET and case.mark in (None, PaymentMark.NEW)
    }
