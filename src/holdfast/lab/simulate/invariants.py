"""The invariants (docs/FAULTS.md): the stock after every commit, and everything else once faults are healed and work is
done.

The final state is compared with the responses buyers got, with the provider's records, and by the product's own
auditor.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cache

from msgspec import Struct
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import sqlite

from holdfast.domain.stock.event_type import wanted_types
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Status
from holdfast.lab.sandbox.entry import Entry as BookEntry
from holdfast.lab.simulate.buyers.buyer import NOTHING, Told
from holdfast.ledger.events.deliveries import Delivery
from holdfast.payments.port import PaymentState
from holdfast.verify.check import Check, Finding, Level
from holdfast.verify.prove import CHECKS, prove
from holdfast.verify.sandbox import Entry, compare

DIALECT = sqlite.dialect()


class Violation(Struct, frozen=True):
    invariant: str
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}"


_STOCK = """SELECT p.sku_id, p.total, p.held, p.sold,
  (SELECT coalesce(sum(quantity), 0) FROM reservations r
   WHERE r.sku_id = p.sku_id AND r.status IN ('active', 'settling')),
  (SELECT coalesce(sum(quantity), 0) FROM reservations r WHERE r.sku_id = p.sku_id AND r.status = 'confirmed')
FROM pools p"""


def check_stock(raw: sqlite3.Connection) -> Iterator[Violation]:
    """I1 and I2 for every pool: the total is never exceeded, and the counters match the reservations."""
    for sku_id, total, held, sold, are_held, are_sold in raw.execute(_STOCK):
        if held + sold > total or are_held + are_sold > total:
            yield Violation("I1", f"{sku_id} has {total} units, and {are_held} are held and {are_sold} sold")
        elif (held, sold) != (are_held, are_sold):
            counted = f"{sku_id} counts {held} held and {sold} sold"
            yield Violation("I2", f"{counted}; its reservations are {are_held} and {are_sold}")


class Ended(Struct, frozen=True):
    """A reservation at the end of the run."""

    owner_id: str
    quantity: int
    status: Status


def reservations_of(raw: sqlite3.Connection) -> dict[str, Ended]:
    rows = raw.execute("SELECT reservation_id, owner_id, quantity, status FROM reservations")
    return {id_: Ended(owner, quantity, Status(status)) for id_, owner, quantity, status in rows}


def given_up_in(raw: sqlite3.Connection) -> list[str]:
    """Reservations that an operator or a later server has reported as lost."""
    reports = [json.loads(report) for (report,) in raw.execute("SELECT report FROM incarnations WHERE report NOT NULL")]
    return [lost["reservation_id"] for report in reports for lost in report["given_up"]]


def check_told(
    told: Iterable[Told], raw: sqlite3.Connection, hold_s: float, repeated_for: Collection[str] = ()
) -> Iterator[Violation]:
    """I5, I6, I7, I8 and I9 as buyers see them. `repeated_for` are buyers whose request the network duplicated: the
    second execution may be granted what the first was refused, and nobody receives its response."""
    ended = reservations_of(raw)
    keys = {
        (owner, key): id_ for owner, key, id_ in raw.execute("SELECT owner_id, key, reservation_id FROM idempotency")
    }
    by_key: defaultdict[tuple[str, str], list[Told]] = defaultdict(list)
    by_reservation: defaultdict[str, list[Told]] = defaultdict(list)
    for one in told:
        if one.answer == "defect":
            yield Violation("no_defects", f"{one.what} of {one.buyer_id} failed at {one.at_s} s")
        if one.key is not None:
            by_key[one.buyer_id, one.key].append(one)
        if one.reservation_id is not None:
            by_reservation[one.reservation_id].append(one)
    # A lost or late response uses up part of the hold, so the hold counts from the first request.
    asked = {
        one.reservation_id: min(each.asked_s for each in answers) for answers in by_key.values() for one in answers
    }
    for owner_and_key, answers in by_key.items():
        stored = None if owner_and_key[0] in repeated_for else keys.get(owner_and_key)
        yield from _check_key(answers, stored, ended)
    for id_, answers in by_reservation.items():
        yield from _check_reservation(id_, answers, ended.get(id_))
        yield from _check_deadline(id_, answers, hold_s, asked.get(id_))


def check_refusals(told: Iterable[Told], raw: sqlite3.Connection) -> Iterator[Violation]:
    """I10: no buyer who could have bought was refused for good."""
    [(total, sold)] = raw.execute("SELECT total, sold FROM pools")
    for one in told:
        if one.answer == Outcome.SOLD_OUT and sold < total:
            yield Violation("I10", f"{one.buyer_id} was told sold_out at {one.at_s} s, and {total - sold} are left")
        if one.answer == Outcome.BUYER_LIMIT:
            yield Violation("I10", f"{one.buyer_id} asked once and was told buyer_limit at {one.at_s} s")


_GRANTED = frozenset({Outcome.RESERVED, Outcome.REPLAYED})


def _check_key(answers: list[Told], stored: str | None, ended: dict[str, Ended]) -> Iterator[Violation]:
    first = answers[0]
    granted = {(one.reservation_id, one.quantity) for one in answers if one.answer in _GRANTED}
    if len(granted) > 1:
        yield Violation("I5", f"{first.key} of {first.buyer_id} was answered with {sorted(granted, key=str)}")
    if any(one.answer == Outcome.KEY_REUSED for one in answers):
        yield Violation("I5", f"{first.key} of {first.buyer_id} was taken for another request")
    yielded_at = min((one.at_s for one in answers if one.answer in _GRANTED), default=None)
    for one in answers:
        if yielded_at is not None and one.asked_s > yielded_at and one.answer in _REFUSALS - {Outcome.NOT_READY}:
            yield Violation("I5", f"{first.buyer_id} has a reservation, and asked again is told {one.answer}")
    made = [one.answer for one in answers if one.answer == Outcome.RESERVED]
    if len(made) > 1:
        yield Violation("I5", f"{first.key} of {first.buyer_id} made {len(made)} reservations")
    has_refusals_only = all(one.answer in NOTHING or one.answer in _REFUSALS for one in answers)
    if has_refusals_only and stored is not None:
        seen = ", ".join(one.answer for one in answers)
        yield Violation("I8", f"{first.buyer_id} was only told {seen}, and has {stored}")
    for id_, quantity in sorted(granted, key=str):
        yield from _check_granted(first.buyer_id, str(id_), quantity, ended.get(str(id_)))


_REFUSALS = frozenset(
    {Outcome.SOLD_OUT, Outcome.ALL_HELD, Outcome.INSUFFICIENT, Outcome.BUYER_LIMIT, Outcome.NOT_READY, Outcome.PAUSED,
     Outcome.ENDED, Outcome.NOT_OPEN}
)  # fmt: skip


def _check_granted(buyer_id: str, id_: str, quantity: int, found: Ended | None) -> Iterator[Violation]:
    if found is None:
        yield Violation("I9", f"{buyer_id} was granted {id_}, which does not exist")
    elif (found.owner_id, found.quantity) != (buyer_id, quantity):
        yield Violation("I7", f"{buyer_id} was granted {quantity} in {id_}, which is {found}")


# Final statuses that are consistent with a response.
# A declined payment leaves a hold, which may end in any way.
_AFTER_PAYING = {Status.CONFIRMED, Status.FAILED, Status.CANCELLED, Status.EXPIRED}
_MAY_END: dict[tuple[str, str], set[Status]] = {
    ("pay", Outcome.MOVED): _AFTER_PAYING,
    ("cancel", Outcome.MOVED): {Status.CANCELLED},
    ("cancel", Outcome.ALREADY): {Status.CANCELLED},
    ("confirm", Outcome.MOVED): {Status.CONFIRMED},
    ("confirm", Outcome.ALREADY): {Status.CONFIRMED},
    ("look", Status.SETTLING): _AFTER_PAYING,
    ("look", Status.CONFIRMED): {Status.CONFIRMED},
    ("look", Status.FAILED): {Status.FAILED},
    ("look", Status.CANCELLED): {Status.CANCELLED},
    ("look", Status.EXPIRED): {Status.EXPIRED},
}


def _check_reservation(id_: str, answers: list[Told], found: Ended | None) -> Iterator[Violation]:
    for one in answers:
        may_end = _MAY_END.get((one.what, one.answer))
        if may_end is not None and (found is None or found.status not in may_end):
            yield Violation("I6", f"{one.buyer_id} was told {one.what} {one.answer} at {one.at_s} s; {id_} is {found}")
        if one.what == "look" and one.answer == "none" and found is not None:
            yield Violation(
                "I9", f"{one.buyer_id} looked for {id_} at {one.at_s} s and was told that it does not exist"
            )


@cache
def _audit_statements() -> list[tuple[str, list[object]]]:
    """Every check of the auditor as compiled SQL, because building the statements anew for every run is slow."""
    failures = [check for check in CHECKS if isinstance(check, Check) and check.level is Level.FAILURE]
    counted = [select(func.count()).select_from(check.counter_examples.subquery("found")) for check in failures]
    compiled = [one.compile(dialect=DIALECT, compile_kwargs={"render_postcompile": True}) for one in counted]
    return [(str(one), [one.params[name] for name in one.positiontup or ()]) for one in compiled]


def _audit(connection: Connection) -> list[Finding]:
    """The findings of `holdfast verify`. Checks that compute hashes are skipped: they concern waiting rooms."""
    execute = connection.connection.cursor().execute
    is_clean = all(execute(*statement).fetchone() == (0,) for statement in _audit_statements())
    return [] if is_clean else prove(connection)


# A process may have to learn the ledger's time first, and responses take a while.
_TOLERANCE_S = 0.5
_TOO_LATE = frozenset({Outcome.ILLEGAL, Status.EXPIRED})
_ENDS_IT = frozenset({"pay", "cancel", "confirm"})


def _check_deadline(id_: str, answers: list[Told], hold_s: float, granted_at: float | None) -> Iterator[Violation]:
    """I9: a hold lasts as long as promised, unless its owner ends it."""
    for one in answers:
        is_ended = any(each.what in _ENDS_IT and each is not one and each.asked_s <= one.at_s for each in answers)
        is_early = granted_at is not None and one.at_s < granted_at + hold_s - _TOLERANCE_S
        if one.answer in _TOO_LATE and is_early and not is_ended and one.what != "look":
            yield Violation("I9", f"{one.what} of {id_} at {one.at_s} s was too late, asked for at {granted_at} s")


def check_webhooks(raw: sqlite3.Connection, received: Iterable[Delivery], since: int) -> Iterator[Violation]:
    """Every event reaches the receiver, and the first deliveries for each subject are in order."""
    wanted = wanted_types(("*",))
    seen: dict[int, str] = {}
    latest: dict[str, int] = {}
    for delivery in received:
        if delivery.seq not in seen and latest.get(delivery.subject, 0) > delivery.seq:
            yield Violation("webhooks", f"event {delivery.seq} of {delivery.subject} came too late")
        latest[delivery.subject] = max(latest.get(delivery.subject, 0), delivery.seq)
        seen[delivery.seq] = delivery.subject
    for seq, kind in raw.execute("SELECT seq, type FROM events WHERE seq > ?", [since]):
        if kind in wanted and seq not in seen:
            yield Violation("webhooks", f"event {seq}, {kind}, was never delivered")


def check_end(connection: Connection, books: Iterable[BookEntry]) -> Iterator[Violation]:
    """I1 to I6, by the auditor and by the provider's records: nothing is half done."""
    entries = {entry.key: entry for entry in books}
    recorded = {
        key: Entry(key, entry.state, entry.captured, entry.captures, entry.refunded) for key, entry in entries.items()
    }
    findings = [*_audit(connection), *compare(connection, recorded)]
    for finding in findings:
        if not finding.ok:
            yield Violation(finding.name, f"{finding.count}: {finding.examples}")
    for entry in entries.values():
        if entry.captures > 1:
            yield Violation("I3", f"{entry.key} was captured {entry.captures} times")
        if entry.state in (PaymentState.AUTHORISED, PaymentState.PENDING):
            yield Violation("I4", f"{entry.key} was left {entry.state}")
    by_reservation: defaultdict[str, list[BookEntry]] = defaultdict(list)
    for entry in entries.values():
        if entry.captured > entry.refunded:
            by_reservation[entry.charge.reservation_id].append(entry)
    for id_, charged in by_reservation.items():
        if len(charged) > 1:
            yield Violation("I3", f"{id_} was charged {len(charged)} times")


_OPEN = """SELECT 'settlement', reservation_id, state FROM settlements WHERE state NOT IN ('done', 'dropped')
UNION ALL SELECT 'refund', refund_id, state FROM refunds WHERE state NOT IN ('done', 'dropped')
UNION ALL SELECT 'reservation', reservation_id, status FROM reservations WHERE status IN ('active', 'settling')
UNION ALL SELECT 'delivery', delivery_id, state FROM deliveries WHERE state NOT IN ('done', 'dropped')
UNION ALL SELECT 'webhook', webhook_id, 'behind' FROM webhooks WHERE relayed_seq < (SELECT max(seq) FROM events)"""


def unfinished(raw: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Work that has not ended yet."""
    return list(raw.execute(_OPEN))
