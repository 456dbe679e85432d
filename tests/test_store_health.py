"""A store that hangs is found out by probes; one that is merely slow is left alone."""

import asyncio

import pytest

from holdfast.errors import Unavailable
from holdfast.runtime.breaker import Circuit
from holdfast.runtime.store_health import PROBE_S, PROBES, SUSPECT_S, StoreHealth
from virtual_time import in_virtual_time


class Store:
    """One whose answers, and whose answers to probes, are given when the test says so."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.probes_answered = asyncio.Event()
        self.probed = 0
        self.pulse = StoreHealth("test", self._probe)

    async def _probe(self) -> None:
        self.probed += 1
        await self.probes_answered.wait()

    async def call(self) -> str:
        async with self.pulse.call(30.0):
            await self.answers.wait()
        return "answered"


@in_virtual_time
async def test_calls_to_a_store_that_hangs_are_cut_off_and_new_ones_refused_at_once() -> None:
    store = Store()
    told = await asyncio.gather(*[store.call() for _ in range(5)], return_exceptions=True)
    assert {type(each) for each in told} == {TimeoutError}
    took_s = asyncio.get_running_loop().time()
    assert took_s == pytest.approx(SUSPECT_S + PROBES * PROBE_S, abs=0.2)
    with pytest.raises(Unavailable):
        await store.call()
    store.answers.set()
    store.probes_answered.set()
    async with asyncio.timeout(60.0):
        while store.pulse.breaker.state is not Circuit.CLOSED:  # noqa: ASYNC110 - it raises no event
            await asyncio.sleep(0.01)
    assert await store.call() == "answered"


@in_virtual_time
async def test_a_store_that_answers_its_probes_is_only_slow() -> None:
    store = Store()
    store.probes_answered.set()
    slow = asyncio.create_task(store.call())
    async with asyncio.timeout(60.0):
        while store.probed < 3:  # noqa: ASYNC110 - it raises no event
            await asyncio.sleep(0.01)
    assert store.pulse.breaker.is_closed
    store.answers.set()
    assert await slow == "answered"


@in_virtual_time
async def test_a_store_that_answers_others_is_not_even_probed() -> None:
    store = Store()
    slow = asyncio.create_task(store.call())
    for _ in range(100):
        async with store.pulse.call(60.0):
            await asyncio.sleep(SUSPECT_S / 10)
    assert store.probed == 0
    store.answers.set()
    assert await slow == "answered"


@in_virtual_time
async def test_failures_in_a_row_open_it_too_and_a_probe_closes_it() -> None:
    store = Store()
    for _ in range(5):
        store.pulse.failed()
    with pytest.raises(Unavailable):
        await store.call()
    store.probes_answered.set()
    store.answers.set()
    async with asyncio.timeout(60.0):
        while not store.pulse.breaker.is_closed:  # noqa: ASYNC110 - it raises no event
            await asyncio.sleep(0.01)
    assert await store.call() == "answered"
