"""The server part of `/simulation`: what it refuses, and how the simple shops sell too much."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from holdfast.lab.commands.demo import _next_port
from holdfast.lab.load.engines import free_port
from holdfast.lab.simulation import buyers
from holdfast.lab.simulation.buyers import arrivals, click_at_shop
from holdfast.lab.simulation.service import _FILES, PAGE, STATE, Service
from holdfast.lab.simulation.shops.order_book import Totals
from holdfast.lab.simulation.shops.shop import Shop, Shops
from holdfast.lab.simulation.simulator import Simulator
from holdfast.lab.simulation.stores import Stores

UNITS = 3
HERE = {"host": "127.0.0.1:8001", "sec-fetch-site": "same-origin"}


@pytest.fixture
def stores() -> Iterator[Stores]:
    made = Stores()
    yield made
    made.close()


@pytest.fixture
def service(stores: Stores) -> Service:
    return Service(Simulator(stores))


async def call(service: Service, method: str, path: str, body: object = None, **headers: str) -> int:
    given = HERE | {name.replace("_", "-"): value for name, value in headers.items()}
    return (await service.answer(method, path, given, json.dumps(body).encode())).status


async def test_every_file_of_the_page_is_served(service: Service) -> None:
    assert [await call(service, "GET", path) for path in _FILES] == [200] * len(_FILES)
    text = (await service.answer("GET", PAGE, HERE, b"")).body.decode()
    assert "/assets/simulation/page.mjs" in text
    assert await call(service, "GET", "/assets/../settings.py") == 404


async def test_only_its_own_page_on_this_machine_may_give_orders(service: Service) -> None:
    body = {"is_on": True}
    assert await call(service, "GET", STATE, host="shop.example.com") == 403
    assert await call(service, "PUT", "/simulation/duplicates", body, host="shop.example.com:8001") == 403
    assert await call(service, "PUT", "/simulation/duplicates", body, sec_fetch_site="cross-site") == 403
    assert await call(service, "PUT", "/simulation/duplicates", body, sec_fetch_site="same-site") == 403
    assert not service.simulator.frame.snapshot.is_duplicating
    assert await call(service, "PUT", "/simulation/duplicates", body) == 202
    assert service.simulator.frame.snapshot.is_duplicating


@pytest.mark.parametrize(
    "options",
    [{"users": 5_001}, {"users": 0}, {"units": 2_001}, {"seconds": 61}, {"seconds": 0}, {"engine": "mysql"}, {"x": 1}],
)
async def test_a_run_beyond_the_limits_is_refused(service: Service, options: dict[str, object]) -> None:
    assert await call(service, "POST", "/simulation/runs", options) == 422


async def test_a_fault_without_a_run_and_redis_where_there_is_none_are_refused(stores: Stores) -> None:
    stores.has_postgres = False
    service = Service(Simulator(stores))
    assert await call(service, "POST", "/simulation/faults", {"fault": "redis"}) == 409
    assert await call(service, "POST", "/simulation/faults", {"fault": "disk"}) == 422
    assert await call(service, "POST", "/simulation/runs", {"engine": "redis"}) == 409
    assert service.simulator.frame.snapshot.options.engine == "sqlite"
    assert await call(service, "POST", "/simulation/nothing", {}) == 404


def test_the_same_seed_gives_the_same_arrivals() -> None:
    times = arrivals(100, 5, seed=7)
    assert times == sorted(times) == arrivals(100, 5, seed=7) != arrivals(100, 5, seed=8)
    assert times[-1] <= 5


def test_the_page_takes_the_next_free_port_after_the_demo() -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        assert _next_port(port) > port + 1


class Checkout:
    """Buyers whose payments all take as long as the last of them."""

    def __init__(self, buyers: int) -> None:
        self._barrier = asyncio.Barrier(buyers)

    async def pay(self) -> None:
        await self._barrier.wait()


def new_directory(path: Path) -> Path:
    path.mkdir()
    return path


@asynccontextmanager
async def open_shop(
    name: str, directory: Path, checkout: Checkout, cache_url: str | None = None
) -> AsyncIterator[Shop]:
    shops = Shops(directory, UNITS, cache_url, checkout.pay)
    try:
        yield next(shop for shop in shops.all if shop.kind.name == name)
    finally:
        await shops.close()


async def test_checking_before_the_payment_sells_more_than_there_is(tmp_path: Path) -> None:
    async with open_shop("read_then_write", tmp_path, Checkout(10)) as shop:
        assert all(await asyncio.gather(*(shop.buy(f"b{number}") for number in range(10))))
        assert shop.book.totals() == Totals(10, 0)
        assert await shop.book.available() == UNITS - 10


async def test_a_conditional_update_sells_what_there_is_but_a_double_click_is_two_orders(tmp_path: Path) -> None:
    async with open_shop("conditional_update", tmp_path, Checkout(UNITS)) as shop:
        answers = await asyncio.gather(*(shop.buy(buyer) for buyer in ("ada", "ada", "bob", "bob")))
        assert sorted(answers) == [False, True, True, True]
        assert shop.book.totals() == Totals(UNITS, 1)


async def test_a_buyer_whose_shop_lost_its_connection_clicks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = [RuntimeError("the handler is closed"), OSError()]
    monkeypatch.setattr(buyers, "CLICK_AGAIN_S", 0)
    async with open_shop("conditional_update", tmp_path, Checkout(1)) as shop:
        buy = shop.buy

        async def failing(buyer_id: str) -> bool:
            if failures:
                raise failures.pop()
            return await buy(buyer_id)

        monkeypatch.setattr(shop, "buy", failing)
        await click_at_shop(shop, "ada")
        assert (shop.errors, shop.book.totals()) == (2, Totals(1, 0))


async def test_storing_what_was_read_loses_the_sales_of_others(tmp_path: Path, stores: Stores) -> None:
    async with open_shop("get_then_set", tmp_path, Checkout(10), stores.cache_url()) as shop:
        assert all(await asyncio.gather(*(shop.buy(f"b{number}") for number in range(10))))
        assert shop.book.totals() == Totals(10, 0)
        # As if a single unit were gone.
        async with Redis.from_url(stores.cache_url()) as redis:
            assert await redis.mget(await redis.keys()) == [b"2"]


async def test_an_atomic_counter_sells_everything_again_once_its_redis_was_killed(
    tmp_path: Path, stores: Stores
) -> None:
    async def sell_out(directory: Path) -> Totals:
        """By a process of the shop that has no broken connections."""
        async with open_shop("decrement", new_directory(directory), Checkout(UNITS), stores.cache_url()) as shop:
            await asyncio.gather(*(shop.buy(f"b{number}") for number in range(UNITS + 2)))
            return shop.book.totals()

    assert await sell_out(tmp_path / "first") == Totals(UNITS, 0)
    assert await sell_out(tmp_path / "second") == Totals(0, 0)
    stores.kill_valkeys()
    stores.restart_valkeys()
    assert await sell_out(tmp_path / "third") == Totals(UNITS, 0)


async def test_a_frozen_process_runs_again_after_the_thaw(stores: Stores) -> None:
    child = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    os.kill(child.pid, signal.SIGSTOP)
    stores._frozen = [child.pid]
    stores.unfreeze()
    child.stdin.write(b"awake\n")
    child.stdin.close()
    assert await child.stdout.read() == b"awake\n"
    assert await child.wait() == 0
