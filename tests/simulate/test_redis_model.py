"""The model of Redis beside a real Valkey: the real gate, drainer, rebuilder and reconciler on both, the same replies
to every call, and the same keys after every step."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from both_redis import BothRedis, in_any_order
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from databases import new_sqlite_database
from holdfast.domain.stock.command import Command, Expire, Take
from holdfast.domain.stock.pool import Rules
from holdfast.errors import EngineError
from holdfast.gate.redis.encoding import POOL_KEYS, CallId, Keys, batch_call, encode
from holdfast.gate.redis.library import source
from holdfast.gate.redis.link.port import Command as RedisCommand
from holdfast.gate.redis.link.port import ErrorReply
from holdfast.lab.simulate.redis_model.model import RedisModel
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.stock.batch import Position
from holdfast.testing.states import NOW
from profiles import examples
from redis_setup import RedisSetup
from strategies import STEPS_MS, Namer, batches, gentle_rules, opening, reserves
from valkeys import ValkeyProcess


class Bench:
    """Both servers and a ledger, open for the whole test; each example has a pool of its own."""

    def __init__(self, valkey: ValkeyProcess, directory: Path) -> None:
        self._runner = asyncio.Runner()
        self.model = RedisModel(lambda: self.world.clock.now * 1000)
        self.both = BothRedis(valkey, self.model)
        database = open_database(new_sqlite_database(directory / "ledger.db"))
        self.world = RedisSetup(database, valkey.url, self.both)
        self.gates = [self.world.open_gate(), self.world.open_gate()]
        self.numbers = count()

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        """What the product cannot do just now is refused the same way by both servers."""
        with suppress(EngineError):
            self._runner.run(work)

    def send(self, *commands: RedisCommand) -> None:
        self.run(self.both.call("", *commands))

    def close(self) -> None:
        self._runner.run(self.world.close())
        self._runner.run(self.world.database.close())
        self._runner.close()


class ModelBesideValkey(RuleBasedStateMachine):
    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.sku_id = f"sku-{next(self.bench.numbers)}"
        self.keys, self.namer = Keys(self.sku_id), Namer(self.sku_id)
        self.bench.world.clock.now = NOW
        self.bench.send(["FLUSHALL"], ["FUNCTION", "LOAD", "REPLACE", source()])
        self.bench.both.keep()

    @initialize(units=st.integers(1, 12), rules=st.just(Rules()) | gentle_rules)
    def open_pool(self, units: int, rules: Rules) -> None:
        self.decide(0, opening(units, rules))

    @rule(ms=st.sampled_from(STEPS_MS))
    def time_passes(self, ms: int) -> None:
        self.bench.world.clock.now += ms

    @rule(through=st.integers(0, 1), batch=batches)
    def decide(self, through: int, batch: list[Command]) -> None:
        self.bench.run(self.bench.gates[through].apply(self.sku_id, self.namer.name(batch)))

    @rule(batch=st.lists(reserves(), min_size=4, max_size=20))
    def a_crowd_arrives(self, batch: list[Command]) -> None:
        self.decide(0, batch)

    @rule()
    def the_ledger_catches_up(self) -> None:
        self.bench.run(self.bench.world.drain(self.sku_id))

    @rule()
    def the_reconciler_comes_by(self) -> None:
        self.bench.run(self.bench.world.reconciler.examine(self.sku_id))

    @rule(name=st.sampled_from(POOL_KEYS))
    def a_key_is_lost(self, name: str) -> None:
        self.bench.send(["DEL", self.keys.prefix + name])

    @rule(name=st.sampled_from(["pool", "holds", "owners", "keys"]), pick=st.integers(0, 30))
    def a_field_is_lost(self, name: str, pick: int) -> None:
        fields = sorted(self.bench.both.contents().get((self.keys.prefix + name).encode(), {b"": b""}))
        self.bench.send(["HDEL", self.keys.prefix + name, fields[pick % len(fields)]])

    @rule()
    def the_library_is_lost(self) -> None:
        self.bench.send(["FUNCTION", "FLUSH"])

    @rule()
    def a_snapshot_is_kept(self) -> None:
        self.bench.both.keep()

    @rule()
    def the_server_goes_back(self) -> None:
        self.bench.both.go_back()
        self.bench.send(["FUNCTION", "LOAD", "REPLACE", source()])

    @rule(
        epoch=st.integers(1, 3),
        seen=st.integers(0, 20),
        number=st.integers(1, 3),
        journal_max=st.sampled_from([1, 100]),
        command=st.sampled_from([Take("other", 1, 3), Take("other", 2, 1), Expire(3)]),
    )
    def another_process_calls(self, epoch: int, seen: int, number: int, journal_max: int, command: Command) -> None:
        """One that knows another epoch or less of the journal, or sends a call again."""
        call, now = CallId("other", number), self.bench.world.clock.now
        batch = batch_call(self.keys, Position(epoch, seen), [command], call, now, journal_max=journal_max)
        self.bench.send(["FCALL", batch.function, len(batch.keys), *batch.keys, *batch.arguments])

    @rule(epoch=st.integers(1, 3), seq=st.integers(0, 20), after_ms=st.sampled_from([0, 1, 40_000_000]))
    def another_process_looks_after_it(self, epoch: int, seq: int, after_ms: int) -> None:
        calls: list[tuple[str, list[str | bytes | int]]] = [
            ("holdfast_view_v2", [self.bench.world.clock.now + after_ms]),
            ("holdfast_audit_v2", [1000]),
            ("holdfast_audit_portion_v2", [0, 1000]),
            ("holdfast_trim_v2", [epoch, seq, "rsv_unknown"]),
            ("holdfast_sweep_v2", [epoch, 0, 1000, 1, 1, self.bench.world.clock.now + after_ms]),
            ("holdfast_load_v2", [epoch, encode([]), encode([["ada", 1, 0, ["x"]]]), encode([])]),
            ("holdfast_open_v2", [epoch]),
            ("holdfast_close_v2", [epoch]),
        ]
        for name, arguments in calls[: 6 + seq % 3]:
            self.bench.send(["FCALL", name, len(self.keys.all), *self.keys.all, *arguments])

    @invariant()
    def both_have_the_same_keys(self) -> None:
        assert in_any_order(self.bench.model.contents()) == in_any_order(self.bench.both.contents())


@pytest.fixture
def bench(valkey_server: ValkeyProcess, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(valkey_server, tmp_path)
    yield bench
    bench.close()


@pytest.mark.hypothesis
def test_the_model_replies_and_keeps_what_valkey_does(bench: Bench) -> None:
    ModelBesideValkey.bench = bench
    run_state_machine_as_test(ModelBesideValkey, settings=settings(examples(4, all_=150), stateful_step_count=20))


def _any_command(rng: Random, step: int) -> RedisCommand:
    """Of those that Holdfast uses, with few names, so that they meet. A few meet a key of another type."""
    few = partial(rng.randint, 0, 6)
    hash_, sorted_set, stream = (key if few() else "x" for key in ("hash", "sorted", "stream"))
    field, low, high, at = f"f{few()}", few(), few(), 10 + step // 4
    commands: list[RedisCommand] = [
        ["HSET", hash_, field, few(), f"f{few()}", "x"],
        ["HDEL", hash_, field, f"f{few()}"],
        ["HMGET", hash_, field, "f0"],
        ["HINCRBY", hash_, field, rng.randint(-5, 2**40)],
        ["HLEN", hash_],
        ["ZADD", sorted_set, few(), field, rng.choice(["+inf", "-1.5", "9007199254740992"]), f"f{few()}"],
        ["ZREM", sorted_set, field],
        ["ZSCORE", sorted_set, field],
        ["ZRANGE", sorted_set, low, rng.choice([high, -1]), "WITHSCORES"],
        ["ZRANGEBYSCORE", sorted_set, f"({low}", "(+inf", "WITHSCORES", "LIMIT", few() % 2, rng.choice([2, -1])],
        ["ZRANGEBYSCORE", sorted_set, rng.choice([f"{low}", "-inf"]), f"({high}", "LIMIT", 0, 3],
        ["XADD", stream, f"{at}-{few()}", "c", field],
        ["XADD", stream, f"{at + 1}-{few()}", "c", field],
        [
            "XRANGE",
            stream,
            rng.choice(["-", f"{at - low}", f"{at - low}-1"]),
            rng.choice(["+", f"{at}", f"{at}-2"]),
            "COUNT",
            3,
        ],
        ["XTRIM", stream, "MINID", f"{max(at - low, 0)}-{high}"],
        ["XTRIM", stream, "MAXLEN", 6 + few()],
        ["XLEN", stream],
        ["SET", "x", field, "EX", 60],
        ["GET", rng.choice(["x", hash_])],
        ["EXISTS", hash_, sorted_set, "none"],
        ["UNLINK", rng.choice(["x", sorted_set])] if low == 0 else ["ZCARD", sorted_set],
    ]
    return rng.choice(commands)


def test_every_command_replies_and_changes_as_in_valkey(bench: Bench, seed: int) -> None:
    rng = Random(seed)
    bench.send(["FLUSHALL"])
    for step in range(0, 3_000, 100):
        bench.send(*[_any_command(rng, step + n) for n in range(100)])
        assert bench.model.contents() == bench.both.contents()


_PACKING = """#!lua name=packing
redis.register_function('pack', function(keys, args) return cmsgpack.pack(cmsgpack.unpack(args[1])) end)
"""
_edges = [sign * 2**k + d for sign in (1, -1) for k in (5, 7, 8, 15, 16, 31, 32) for d in (-1, 0, 1)]
_numbers = st.integers(-(2**53), 2**53) | st.sampled_from(_edges)
_scalars = _numbers | st.floats(allow_nan=False) | st.booleans() | st.none() | st.text(max_size=300)
# Lua promises no order for tables with several names.
_packed = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=1)
)


@pytest.mark.hypothesis
def test_cmsgpack_packs_what_it_does_in_valkey(bench: Bench) -> None:
    bench.send(["FUNCTION", "LOAD", "REPLACE", _PACKING])

    @settings(examples(40, all_=500))
    @given(_packed)
    def packs_the_same(value: object) -> None:
        packed = encode(value)
        for text in (packed, packed[:-1], packed + packed):
            bench.send(["FCALL", "pack", 0, text])

    packs_the_same()


def test_a_scan_meets_every_field_that_stays_while_others_come_and_go() -> None:
    model, kept = RedisModel(lambda: 0), {b"kept-%d" % n for n in range(50)}
    model.execute(["HSET", "h", *[word for field in kept for word in (field, "")]])
    met, cursor = set(), b"0"
    for step in count():
        model.execute(["HSET", "h", f"new-{step}", "", f"other-{step}", ""])
        cursor, page = model.execute(["HSCAN", "h", cursor, "COUNT", 7])
        model.execute(["HDEL", "h", f"other-{step}"])
        met |= set(page[::2])
        if cursor == b"0":
            break
    assert kept <= met
    assert step > 3


def test_a_full_server_refuses_what_writes_and_still_frees_memory() -> None:
    model, keys = RedisModel(lambda: 0), Keys("sku")
    model.execute(["FUNCTION", "LOAD", "REPLACE", source()])
    model.refusing_writes = ErrorReply("OOM", "command not allowed when used memory > 'maxmemory'.")
    assert model.execute(["FCALL", "holdfast_beat_v2", 1, "beat"]) == model.refusing_writes
    assert model.execute(["FCALL", "holdfast_trim_v2", 6, *keys.all, 1, 1]) == -1
    assert model.keys() == []
