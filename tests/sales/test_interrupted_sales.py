"""Creating or pausing a sale that is interrupted at any step is completed later."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection
from stall import SALE, SEALER, SKU, STARTS_AT, Stall, made, until_ready

from holdfast.domain.sale.sale import SaleState
from holdfast.domain.stock.command import Command, Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.gate.port import Gate
from holdfast.ledger.sales.sales import find_sale, insert_sale
from holdfast.sales.loading import RESUME_AFTER_MS, Loader
from holdfast.sales.operations import SaleOperations
from holdfast.testing.states import NOW
from set_clock import SetClock

pytest_plugins = ("stall_fixtures",)


class Interrupted(Exception):
    pass


class FailingDatabase:
    """The real one, until the n-th time it is asked for something: then whoever asked is gone."""

    def __init__(self, clock: SetClock, after: int) -> None:
        self._clock, self._left = clock, after
        self.dialect_name, self.guard = clock.dialect_name, clock.guard

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Interrupted

    async def write(self, work: Any, **more: Any) -> Any:
        self._count()
        return await self._clock.write(work, **more)

    async def read(self, work: Any) -> Any:
        self._count()
        return await self._clock.read(work)

    async def lock_free_read(self, work: Any) -> Any:
        self._count()
        return await self._clock.lock_free_read(work)

    def now_ms(self, connection: Connection) -> int:
        return self._clock.now_ms(connection)

    def known_now_ms(self) -> int | None:
        return self._clock.known_now_ms()

    def clock_step_ms(self) -> int:
        return 0

    async def close(self) -> None: ...


class FailingGate:
    """Decides, or does not, and then whoever asked is gone."""

    def __init__(self, gate: Gate, *, decides: bool, calls: int = 1) -> None:
        self._gate, self._decides, self._left = gate, decides, calls

    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        self._left -= 1
        if self._left > 0:
            return await self._gate.apply(sku_id, commands)
        if self._decides:
            await self._gate.apply(sku_id, commands)
        raise Interrupted


@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_sale_whose_maker_died_between_any_two_steps_is_made_all_the_same(stall: Stall, steps: int) -> None:
    dying = FailingDatabase(stall.clock, steps)
    loader = Loader(dying, stall.gate, stall.inspector, stall.catch_up)
    try:
        await SaleOperations(dying, stall.gate, loader, {}, SEALER).create(SALE)
    except Interrupted:
        assert (await stall.sale()).state is SaleState.LOADING or steps > 4
    sale = await until_ready(stall)
    assert (sale.state, sale.problem) == (SaleState.READY, None)
    stall.clock.now = STARTS_AT
    assert await stall.try_to_buy() is Outcome.RESERVED


@pytest.mark.parametrize("decides", [True, False])
@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_a_sale_whose_maker_died_while_it_told_the_gate_is_made_all_the_same(
    stall: Stall, calls: int, decides: bool
) -> None:
    gate = FailingGate(stall.gate, decides=decides, calls=calls)
    loader = Loader(stall.clock, gate, stall.inspector, stall.catch_up)
    with pytest.raises(Interrupted):
        await SaleOperations(stall.clock, gate, loader, {}, SEALER).create(SALE)
    sale = await until_ready(stall)
    assert (sale.state, sale.problem) == (SaleState.READY, None)
    stall.clock.now = STARTS_AT
    assert await stall.try_to_buy() is Outcome.RESERVED


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8, 16, 32])
async def test_a_request_that_is_cancelled_leaves_a_sale_that_is_made_later(stall: Stall, delay_ms: int) -> None:
    making = asyncio.create_task(stall.operations.create(SALE))
    await asyncio.sleep(delay_ms / 1000)
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)
    await asyncio.sleep(0.05)  # What was handed to the database's thread cannot be called back.
    if await stall.clock.read(lambda c: find_sale(c, "drop")) is not None:
        await until_ready(stall)
        stall.clock.now = STARTS_AT
        assert await stall.try_to_buy() is Outcome.RESERVED


async def test_a_sale_that_is_being_made_is_left_to_its_maker_for_a_while(stall: Stall) -> None:
    loading = replace(SALE, created_at=NOW, updated_at=NOW)
    await stall.clock.write(lambda c: insert_sale(c, loading))
    await stall.pass_later(RESUME_AFTER_MS - 1)
    assert (await stall.sale()).state is SaleState.LOADING
    await stall.pass_later(1)
    assert (await stall.sale()).state is SaleState.READY


async def test_a_pause_that_never_reached_the_gate_does_within_seconds(stall: Stall) -> None:
    await made(stall, replace(SALE, starts_at=NOW, ends_at=None))
    await stall.lifecycle.pass_once()
    gate = FailingGate(stall.gate, decides=False)
    dying = SaleOperations(stall.clock, gate, Loader(stall.clock, gate, stall.inspector, stall.catch_up), {}, SEALER)
    with pytest.raises(Interrupted):
        await dying.pause("drop", paused=True)
    assert await stall.try_to_buy() is Outcome.RESERVED
    await stall.catch_up(SKU)
    await stall.pass_later(10_000)
    assert await stall.try_to_buy() is Outcome.PAUSED
