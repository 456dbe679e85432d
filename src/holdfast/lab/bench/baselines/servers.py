"""The servers that Holdfast is compared with, each in its own process on a free port."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.processes import clean_environment, python, running
from holdfast.lab.load.servers import RESERVE_BODY, START_TIMEOUT_S, CheckedLoad, answers, check_taken
from holdfast.lab.load.spec import NUMBER, Load, LoadResult

_TUTORIAL_BODY = f'{{"owner_id":"owner-{NUMBER}","quantity":1}}'


class Tutorial:
    def __init__(self, port: int, redis_url: str) -> None:
        from redis import Redis  # noqa: PLC0415 - an optional extra

        self._port = port
        self._redis = Redis.from_url(redis_url, decode_responses=True)
        self._pools = 0

    def reserve(self, *, units: int = MAX_TOTAL_UNITS) -> CheckedLoad:
        self._pools += 1
        stock = f"stock:sku-{self._pools}"
        self._redis.set(stock, units)
        load = Load(self._port, "POST", f"/inventory/sku-{self._pools}/reserve", _TUTORIAL_BODY)
        return CheckedLoad(load, 200 if units else 409, lambda result: self._check_stock(stock, units, result))

    def _check_stock(self, stock: str, units: int, result: LoadResult) -> None:
        check_taken(stock, result, units - int(str(self._redis.get(stock))))

    def redis_version(self) -> str:
        facts: Any = self._redis.info("server")
        return str(facts.get("valkey_version") or facts["redis_version"])


def bare_reserve(port: int) -> CheckedLoad:
    """The same request, sent to a handler that returns a constant."""
    authorization = f"Bearer hf_{'0' * 43}"
    load = Load(port, "POST", "/v1/inventory/bench/reserve", RESERVE_BODY, authorization)
    return CheckedLoad(load, 200, lambda _: None)


@contextmanager
def bare_server(directory: Path, interface: str) -> Iterator[int]:
    port = free_port()
    command = python("holdfast.lab.bench.baselines.bare_handler", str(port), interface)
    with running(f"bare-{interface}", command, directory, clean_environment()) as process:
        process.await_ready(lambda: answers(f"http://127.0.0.1:{port}/"), START_TIMEOUT_S)
        yield port


@contextmanager
def tutorial_server(directory: Path, redis_url: str) -> Iterator[Tutorial]:
    port = free_port()
    # One process, like ours; without the access log, which would cost a tenth of its throughput.
    command = python("uvicorn", "holdfast.lab.bench.baselines.tutorial:app", "--port", str(port), "--no-access-log")
    with running("tutorial", command, directory, clean_environment(TUTORIAL_REDIS_URL=redis_url)) as process:
        process.await_ready(lambda: answers(f"http://127.0.0.1:{port}/health"), START_TIMEOUT_S)
        yield Tutorial(port, redis_url)
