"""Refusals are earned by answers: some at once, the others in turn, nobody never."""

import asyncio

import pytest

from holdfast.http.protection import refusal_pace
from holdfast.http.protection.refusal_pace import CREDIT_MAX, LEAST_PER_ROUND, REFUSALS_PER_ANSWER, RefusalPace


async def crowd(pace: RefusalPace, people: int) -> list["asyncio.Task[None]"]:
    tasks = [asyncio.create_task(pace.turn()) for _ in range(people)]
    await breathe()
    return tasks


async def breathe() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def told(tasks: list["asyncio.Task[None]"]) -> list[int]:
    return [number for number, task in enumerate(tasks) if task.done()]


async def test_a_few_are_told_at_once_and_the_rest_as_answers_earn_it_in_order() -> None:
    pace, at_once = RefusalPace(), int(CREDIT_MAX)
    tasks = await crowd(pace, at_once + 100)
    assert told(tasks) == list(range(at_once))
    for _ in range(round(10 / REFUSALS_PER_ANSWER)):
        pace.earn()
    await breathe()
    assert told(tasks) == list(range(at_once + 10))
    pace.tend()
    await breathe()
    assert told(tasks) == list(range(at_once + 10 + LEAST_PER_ROUND))
    pace.tend()
    await asyncio.gather(*tasks)


async def test_nobody_waits_for_longer_than_the_longest_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = RefusalPace()
    tasks = await crowd(pace, int(CREDIT_MAX) + 10 * LEAST_PER_ROUND)
    monkeypatch.setattr(refusal_pace, "LONGEST_WAIT_S", -1.0)
    pace.tend()
    await asyncio.gather(*tasks)
    assert len(told(tasks)) == len(tasks)


async def test_who_has_gone_meanwhile_takes_nobodys_turn_for_long() -> None:
    pace = RefusalPace()
    tasks = await crowd(pace, int(CREDIT_MAX) + 2)
    tasks[-2].cancel()
    await breathe()
    for _ in range(round(2 / REFUSALS_PER_ANSWER)):
        pace.earn()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert tasks[-2].cancelled()
    assert not tasks[-1].cancelled()
