"""The wire format between the gate and its functions: msgpack, documented in the header of each file in `lua/`."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict

from holdfast.domain.stock.command import (
    Command,
    Expire,
    Extend,
    Give,
    Move,
    Provision,
    Reserve,
    Restock,
    Take,
    Verdict,
)
from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.pool import Pool, RuleChanges, Rules
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.domain.stock.shards import is_shard, shard_number
from holdfast.domain.stock.state import Changes, Counters, Event, Remembered, Transfer
from holdfast.gate.redis.link.slots import SLOTS, key_slot
from holdfast.ledger.stock.batch import Position
from holdfast.ledger.stock.journal import Entry
from holdfast.ledger.stock.queries import KEYS_KEPT_MS

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode

# Looking up an enum member by value or attribute takes longer than everything else for a command.
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_STATUSES = {status.value: status for status in Status}
_RESERVED, _REPLAYED, _ACTIVE, _SETTLING = Outcome.RESERVED, Outcome.REPLAYED, Status.ACTIVE, Status.SETTLING

# Longer than in the ledger: a key that the ledger still has must not look new in Redis.
REDIS_KEYS_KEPT_MS = KEYS_KEPT_MS + 3_600_000
POOL_KEYS = ("pool", "holds", "deadlines", "owners", "journal", "keys")
# How many entries (one per batch) the ledger may lag: far more than a healthy drainer leaves, but far from filling the
# memory.
JOURNAL_MAX = 100_000


class Keys:
    """The names of everything about one pool. One hash tag puts them on one node of a Cluster."""

    def __init__(self, sku_id: str) -> None:
        self.prefix = f"hf:{{{hash_tag(sku_id) if is_shard(sku_id) else sku_id}}}:"
        self.all = [self.prefix + name for name in POOL_KEYS]
        self.pool, self.holds, self.deadlines, self.owners, self.journal, self.keys = self.all


POOL_PATTERN = "hf:{*}:pool"


def pool_of(key: str) -> str:
    """The pool of this key; the inverse of `Keys(…).pool`."""
    tag = key.removeprefix("hf:{").removesuffix("}:pool")
    return tag.rpartition(".")[0] if is_shard(tag) else tag


def key_field(owner_id: str, key: str) -> str:
    """The field of an idempotency key. The length separates owner and key, whatever characters they contain."""
    return f"{len(owner_id)}:{owner_id}:{key}"


@lru_cache(maxsize=4096)
def hash_tag(shard: str) -> str:
    """A tag that puts a shard into its part of the slots of a Cluster.

    Names that differ in one digit are not enough: their slots differ in the same few bits for every SKU, so the two
    shards of a pool would never be on different halves.
    """
    number, shards = shard_number(shard)
    tags = (f"{shard}.{attempt}" for attempt in count())
    return next(tag for tag in tags if key_slot(tag.encode()) * shards // SLOTS == number)


class CallId(Struct, frozen=True):
    """A call of a caller who sends one at a time, with ascending numbers, so that only the last reply is kept."""

    caller: str
    number: int


class BatchCall(Struct, frozen=True):
    """A batch as sent, with its own ID."""

    function: str
    keys: list[str]
    arguments: list[str | bytes | int]


def batch_call(
    keys: Keys,
    seen: Position,
    commands: Sequence[Command],
    call: CallId,
    now: int | None = None,
    *,
    journal_max: int = JOURNAL_MAX,
) -> BatchCall:
    """`now` is None if the time is not known yet; Redis's time is used then."""
    encoded = encode([_command(command) for command in commands])
    limits = [MAX_TOTAL_UNITS, REDIS_KEYS_KEPT_MS, journal_max]
    who = call.caller, call.number
    return BatchCall("holdfast_apply_v2", keys.all, [seen.epoch, seen.seq, *limits, *who, encoded, now or 0])


def _command(command: Command) -> list[object]:
    match command:
        case Reserve():
            return _reserve(command)
        case Extend():
            return ["extend", command.reservation_id, command.ttl_ms, _or_false(command.owner_id), command.max_hold_ms]
        case Move():
            return [command.transition, command.reservation_id, _or_false(command.owner_id), command.attempt]
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
    """Lua drops a nil from a list and shifts everything after it."""
    return False if value is None else value


def _reserve(command: Reserve) -> list[object]:
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
        attempt += (key_field(command.owner_id, command.key), command.key, command.fingerprint)
    return attempt


def _provision(command: Provision) -> list[object]:
    rules = rules_values(command.rules) if command.rules else False
    changes = {name: False if value is None else value for name, value in _changed(command.changes)}
    total = False if command.total is None else command.total
    return ["provision", total, rules, changes or False, command.only_if_missing, command.unless_in_sale]


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
    # 0 is a limit and False means none, but Python considers them equal.
    limits = [None if value is False else value for value in (limit, budget, tier, opens_at, ends_at)]
    rules = Rules(limits[0], limits[1], limits[2], limits[3], limits[4], paused)
    return Pool(sku_id, total, held, sold, active, ready, rules)


def reservation_from(sku_id: str, reservation_id: str, values: Sequence[Any]) -> Reservation:
    """The last two may be missing: attempts in records from before they were counted, and the time of an unconfirmed
    one."""
    owner_id, quantity, status, created_at, expires_at, *rest = values
    attempts, *confirmed_at = rest or (int(status == _SETTLING),)
    return Reservation(
        reservation_id, sku_id, owner_id, quantity, _STATUSES[status], created_at, expires_at, attempts, *confirmed_at
    )


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
    # Equal refusals, often a whole batch, share one verdict.
    refusal = refusals.get(values := tuple(answer))
    if refusal is None:
        refusal = refusals[values] = _refusal(_OUTCOMES[answer[0]], answer[1:], now)
    return refusal


def _granted(
    sku_id: str, reservation_id: str, command: Reserve, quantity: int, created_at: int, expires_at: int
) -> Reservation:
    status, attempts = command.granted_status, command.granted_attempts
    return Reservation(reservation_id, sku_id, command.owner_id, quantity, status, created_at, expires_at, attempts)


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
            wait = None if deadline is None else max(deadline - now, 0)
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


def counter_values(counters: Counters) -> list[tuple[str, int]]:
    given = [(f"given:{receiver}", number) for receiver, number in counters.given.items()]
    return given + [(f"taken:{donor}", number) for donor, number in counters.taken.items()]
