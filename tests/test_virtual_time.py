"""The loop whose clock jumps."""

import asyncio

import pytest

from virtual_time import in_virtual_time


@in_virtual_time
async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    woken: list[tuple[float, float]] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((seconds, asyncio.get_running_loop().time()))

    await asyncio.gather(*[sleep(seconds) for seconds in (3_600.0, 1.0, 60.0)])
    assert [seconds for seconds, _ in woken] == [1.0, 60.0, 3_600.0]
    assert [at for _, at in woken] == pytest.approx([1.0, 60.0, 3_600.0])


def test_a_wait_for_what_never_comes_is_an_error_and_not_for_ever() -> None:
    @in_virtual_time
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        wait()
