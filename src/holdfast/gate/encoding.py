"""What travels between the gate and its functions: msgpack, as `gate/lua/` documents it at each operation."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict

from holdfast.domain.command import Command, Expire, Extend, Give, Move, Provision, Reserve, Restock, Take, Verdict
from holdfast.domain.outcome import Outcome
from holdfast.domain.pool import Pool, RuleChanges, Rules
from holdfast.domain.reservation import Reservation, Status
from holdfast.domain.shards import is_shard, shard_number
from holdfast.domain.state import Changes, Counters, Event, Remembered, Transfer
from holdfast.gate.link.slots import SLOTS, key_slot
from holdfast.ledger.journal import Entry

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode

# A member of an enum, found by its value or as an attribute, takes longer than all else that is done for a command.
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_STATUSES = {status.value: status for status in Status}
_RESERVED, _REPLAYED, _ACTIVE = Outcome.RESERVED, Outcome.REPLAYED, Status.ACTIVE

# Beside the pool's own keys, in this order, come the idempotency keys of the batch.
POOL_KEYS = ("pool", "holds", "deadlines", "owners", "journal")


class Keys:
    """The names of everything about one pool. One hash tag puts them on one node of a Cluster."""

    def __init__(self, sku_id: str) -> None:
        self.prefix = f"hf:{{{hash_tag(sku_id) if is_shard(sku_id) else sku_id}}}:"
        self.pool, self.holds, self.deadlines, self.owners, self.journal = (self.prefix + name for name in POOL_KEYS)

    def call(self, call_id: str) -> str:
        return f"{self.prefix}call:{call_id}"

    def idempotency(self, owner_id: str, key: str) -> str:
        """The length keeps owner and key apart, whatever characters they have."""
        return f"{self.prefix}key:{len(owner_id)}:{owner_id}:{key}"


@lru_cache(maxsize=4096)
def hash_tag(shard: str) -> str:
    """One that puts a shard into its part of the slots of a Cluster.

    Names that differ in a digit alone would not do: their slots differ in the same few bits for every SKU, and the two
    shards of a pool would never be on different halves.
    """
    number, shards = shard_number(shard)
    tags = (f"{shard}.{attempt}" for attempt in count())
    return next(tag for tag in tags if key_slot(tag.encode()) * shards // SLOTS == number)


class Batch(Struct, frozen=True):
    """A batch ready to be sent: the idempotency keys it names, and its commands."""

    keys: list[str]
    commands: bytes


def encode_batch(keys: Keys, commands: Sequence[Command], first_key: int) -> Batch:
    """`first_key` is the place the first idempotency key will have among all keys of the call."""
    places: dict[str, int] = {}
    encoded = [_command(command, keys, places, first_key) for command in commands]
    return Batch(list(places), encode(encoded))


def _command(command: Command, keys: Keys, places: dict[str, int], first_key: int) -> list[object]:
    match command:
        case Reserve():
            return _reserve(command, keys, places, first_key)
        case Extend():
            return ["extend", command.reservation_id, command.ttl_ms, _or_false(command.owner_id), command.max_hold_ms]
        case Move():
            return [command.transition, command.reservation_id, _or_false(command.owner_id)]
        case Expire():
            return ["expire", command.limit]
        case Restock():
            return ["restock", command.units]
        case Provision():
            return _provision(command)
        case Give():
            return ["give", command.receiver, command.units]
        case Take():
            return ["take", command.donor, command.number, command.units]


def _or_false(value: str | None) -> str | bool:
    """Lua leaves a nil out of a list, and everything after it moves up."""
    return False if value is None else value


def _reserve(command: Reserve, keys: Keys, places: dict[str, int], first_key: int) -> list[object]:
    attempt: list[object] = [
        "reserve",
        command.reservation_id,
        command.owner_id,
        command.quantity,
        command.min_quantity,
        command.ttl_ms,
        command.tier,
        command.settle,
    ]
    if command.key is not None:
        place = places.setdefault(keys.idempotency(command.owner_id, command.key), first_key + len(places))
        attempt += (place, command.key, command.fingerprint)
    return attempt


def _provision(command: Provision) -> list[object]:
    rules = rules_values(command.rules) if command.rules else False
    changes = {name: False if value is None else value for name, value in _changed(command.changes)}
    total = False if command.total is None else command.total
    return ["provision", total, rules, changes or False, command.only_if_missing]


def _changed(changes: RuleChanges | None) -> list[tuple[str, object]]:
    given = {} if changes is None else asdict(changes)
    return [(name, value) for name, value in given.items() if value is not UNSET]


def rules_values(rules: Rules) -> list[object]:
    limits = (rules.per_owner_limit, rules.hold_budget, rules.required_tier, rules.opens_at, rules.ends_at)
    return [*(False if limit is None else limit for limit in limits), rules.paused]


def pool_values(pool: Pool) -> list[object]:
    counts = [pool.total, pool.held, pool.sold, pool.active_reservations, pool.ready]
    return [*counts, *rules_values(pool.rules)]


def pool_from(sku_id: str, values: Sequence[Any]) -> Pool:
    total, held, sold, active, ready, limit, budget, tier, opens_at, ends_at, paused = values
    # 0 is a limit, False is none: they are equal to Python, and not the same.
    limits = [None if value is False else value for value in (limit, budget, tier, opens_at, ends_at)]
    rules = Rules(limits[0], limits[1], limits[2], limits[3], limits[4], paused)
    return Pool(sku_id, total, held, sold, active, ready, rules)


def reservation_values(r: Reservation) -> list[object]:
    return [r.reservation_id, r.owner_id, r.quantity, r.status, r.created_at, r.expires_at]


def reservation_from(sku_id: str, reservation_id: str, values: Sequence[Any]) -> Reservation:
    owner_id, quantity, status, created_at, expires_at = values
    return Reservation(reservation_id, sku_id, owner_id, quantity, _STATUSES[status], created_at, expires_at)


def decode_verdicts(
    sku_id: str, commands: Sequence[Command], answers: Sequence[Sequence[Any]], now: int
) -> list[Verdict]:
    refusals: dict[tuple[Any, ...], Verdict] = {}
    return [
        _reserve_verdict(sku_id, command, answer, now, refusals)
        if isinstance(command, Reserve)
        else _other_verdict(sku_id, command, _OUTCOMES[answer[0]], answer[1:])
        for command, answer in zip(commands, answers, strict=True)
    ]


def _reserve_verdict(
    sku_id: str, command: Reserve, answer: Sequence[Any], now: int, refusals: dict[tuple[Any, ...], Verdict]
) -> Verdict:
    if answer[0] == _RESERVED:
        _, quantity, created_at, expires_at = answer
        return Verdict(_RESERVED, _granted(sku_id, command.reservation_id, command, quantity, created_at, expires_at))
    if answer[0] == _REPLAYED:
        _, first_id, quantity, created_at, expires_at = answer
        return Verdict(_REPLAYED, _granted(sku_id, first_id, command, quantity, created_at, expires_at))
    # Those who are refused alike, which may be all of a batch, share one verdict.
    refusal = refusals.get(told := tuple(answer))
    if refusal is None:
        refusal = refusals[told] = _refusal(_OUTCOMES[answer[0]], answer[1:], now)
    return refusal


def _granted(
    sku_id: str, reservation_id: str, command: Reserve, quantity: int, created_at: int, expires_at: int
) -> Reservation:
    status = command.granted_status
    return Reservation(reservation_id, sku_id, command.owner_id, quantity, status, created_at, expires_at)


def _refusal(outcome: Outcome, values: Sequence[Any], now: int) -> Verdict:
    match outcome:
        case Outcome.NOT_OPEN:
            return Verdict(outcome, opens_at=values[0])
        case Outcome.INSUFFICIENT:
            return Verdict(outcome, available=values[0])
        case Outcome.SOLD_OUT:
            return Verdict(outcome, available=0)
        case Outcome.ALL_HELD:
            deadline = values[0] or None
            wait = None if deadline is None else deadline - now
            return Verdict(outcome, available=0, next_return_at=deadline, retry_after_ms=wait)
        case _:
            return Verdict(outcome)


def _other_verdict(
    sku_id: str,
    command: Extend | Move | Expire | Give | Take | Restock | Provision,
    outcome: Outcome,
    values: Sequence[Any],
) -> Verdict:
    match command:
        case Extend() | Move():
            return _move_verdict(sku_id, command, outcome, values)
        case Expire() | Give() | Take():
            return Verdict(outcome, units=values[0])
        case Restock() | Provision():
            pool = pool_from(sku_id, values)
            return Verdict(outcome, pool=pool, available=pool.available if outcome is Outcome.INSUFFICIENT else None)


def _move_verdict(sku_id: str, command: Extend | Move, outcome: Outcome, values: Sequence[Any]) -> Verdict:
    if outcome is Outcome.NOT_FOUND:
        return Verdict(outcome)
    reservation = reservation_from(sku_id, command.reservation_id, values)
    latest = None
    if isinstance(command, Extend) and outcome is Outcome.EXTENSION_LIMIT:
        latest = reservation.created_at + command.max_hold_ms
    return Verdict(outcome, reservation, latest_expires_at=latest)


def decode_entry(sku_id: str, entry_id: bytes, payload: bytes) -> Entry:
    epoch, seq = map(int, entry_id.split(b"-"))
    now, after, pool, created, moved, remembered, events, *passed = decode(payload)
    given, taken = passed or ((), ())
    changes = Changes(
        pool_from(sku_id, pool),
        [reservation_from(sku_id, id_, values) for id_, *values in created],
        [reservation_from(sku_id, id_, values) for id_, *values in moved],
        [_remembered(sku_id, *values) for values in remembered],
        [
            Event(type_, now, id_ or None, None if quantity is False else quantity, expires_at or None)
            for type_, id_, quantity, expires_at in events
        ],
        [Transfer(sku_id, receiver, number, units) for receiver, number, units in given],
        [Transfer(donor, sku_id, number, units) for donor, number, units in taken],
    )
    return Entry(epoch, seq, now, after, changes)


def _remembered(
    sku_id: str,
    owner_id: str,
    key: str,
    fingerprint: str,
    reservation_id: str,
    quantity: int,
    created_at: int,
    expires_at: int,
) -> Remembered:
    first = Reservation(reservation_id, sku_id, owner_id, quantity, _ACTIVE, created_at, expires_at)
    return Remembered(owner_id, key, fingerprint, first)


def first_answer_values(first: Remembered) -> list[object]:
    r = first.reservation
    return [first.fingerprint, r.reservation_id, r.quantity, r.created_at, r.expires_at]


def counter_values(counters: Counters) -> list[tuple[str, int]]:
    given = [(f"given:{receiver}", number) for receiver, number in counters.given.items()]
    return given + [(f"taken:{donor}", number) for donor, number in counters.taken.items()]
