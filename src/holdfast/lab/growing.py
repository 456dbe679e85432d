"""The tables of GROWING.md: measured limits, and the number of instances that larger crowds need."""

from math import ceil

from msgspec import Struct

from holdfast.lab.bench.document.markdown import milliseconds, number, table
from holdfast.lab.bench.measure.results import Measured
from holdfast.lab.plan.figures import Figures, measured

# The spare share of each instance that a plan keeps free.
HEADROOM = 0.3
RATES = (1_000, 10_000, 100_000, 1_000_000)


class Step(Struct, frozen=True):
    when: str
    add: str
    limit: str


def growing_tables(found: Measured) -> str:
    return "\n\n".join([_steps_table(found), _rates_table(measured("postgres"))])


def _steps_table(found: Measured) -> str:
    def figure(bench: str, engine: str, name: str) -> str:
        one = found.of(bench, engine)
        assert one is not None, f"{bench} was not measured on {engine}"
        return number(round(one.figures[name], -2))

    def p99(bench: str, engine: str, name: str) -> str:
        one = found.of(bench, engine)
        assert one is not None, f"{bench} was not measured on {engine}"
        return milliseconds(one.latency_ms[name]["p99"])

    by_hand = measured("redis")
    steps = [
        Step(
            "you begin",
            "nothing: one process with its SQLite file",
            f"{figure('room', 'sqlite', 'purchases')} purchases/s by buyers and "
            f"{figure('room', 'sqlite', 'joins')} joins/s over HTTP; "
            f"orders from wallets {figure('settlement', 'sqlite', 'holdfast')}/s",
        ),
        Step(
            "pages poll more often than one process answers",
            "the edge ([EDGE.md](EDGE.md))",
            f"{figure('room', 'sqlite', 'now')} polls of `now` per second and process without it",
        ),
        Step(
            "one process is busy, or the sale must survive the loss of a host",
            "PostgreSQL and more server processes ([POSTGRESQL.md](POSTGRESQL.md))",
            f"one process reserves {figure('http', 'sqlite', 'holdfast')}/s over HTTP; on PostgreSQL "
            f"{figure('http', 'postgres', 'holdfast')}/s, and two processes on the same two cores "
            f"{figure('http', 'postgres', 'holdfast_two')}/s",
        ),
        Step(
            "orders are confirmed late",
            "workers ([SETTLEMENT.md](SETTLEMENT.md))",
            f"one worker settles {figure('settlement', 'postgres', 'holdfast')} orders/s from wallets, "
            f"{number(by_hand.card.per_second)}/s through a provider (by hand)",
        ),
        Step(
            "PostgreSQL is busy with purchases",
            "Redis as the gate; then shards for one hot SKU ([REDIS.md](REDIS.md))",
            f"one pool decides {figure('gate', 'postgres', 'holdfast_keyed')} purchases/s on PostgreSQL; a shard "
            f"{figure('gate', 'redis', 'holdfast_keyed')}/s, which leaves PostgreSQL free",
        ),
        Step(
            "shops ask for stock all the time",
            "read replicas ([POSTGRESQL.md](POSTGRESQL.md))",
            f"one server process answers {figure('http', 'postgres', 'available')} queries of `available` per second; "
            f"at 1,000/s, open loop, their p99 is {p99('http', 'postgres', 'available')} ms",
        ),
        Step(
            "other systems follow sales, or settlement must not wait for one SKU",
            "Kafka ([STREAMS.md](STREAMS.md))",
            f"one worker copies {number(by_hand.drain.per_second)} changes/s to the ledger (by hand); Kafka: no bench",
        ),
        Step(
            "many sales at once, or the loss of one database must not stop all",
            "cells ([CELLS.md](CELLS.md))",
            f"one line takes {figure('room', 'postgres', 'joins_desk')} joins/s; 1,000 pools at once "
            f"{figure('growth', 'postgres', 'pools_1000')} reservations/s together, one alone "
            f"{figure('growth', 'postgres', 'pools_1')}/s",
        ),
    ]
    return table(["when", "add", "the limit that says so"], [[one.when, one.add, one.limit] for one in steps])


def _rates_table(figures: Figures) -> str:
    parts = {
        "cached answers: edge cores": figures.edge,
        "`now` without an edge: server processes": figures.look,
        "joins: server processes": figures.join,
        "joins: lines, one for each sale or drop": figures.line,
        "purchases: server processes": figures.purchase,
        "purchases: pools, each in a cell": figures.gate,
    }
    rows = [
        [name, number(round(one.per_second, -2)), *[_needed(rate / one.per_second) for rate in RATES]]
        for name, one in parts.items()
    ]
    return table(["", "one does, per second", *[f"{rate:,}/s" for rate in RATES]], rows)


def _needed(load: float) -> str:
    """Bold if one instance is enough, because only that was measured."""
    count = ceil(load / (1 - HEADROOM))
    return f"**{count}**" if count == 1 else f"{count:,}"
