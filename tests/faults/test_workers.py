"""Several worker processes on one PostgreSQL: they share the work, stop together, and do not outlive the supervisor."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

from processes import HoldfastProcess, ask, children, is_running, make_pool, serving, stock, until

WORKERS = ("--workers", "2")


def workers_of(holdfast: HoldfastProcess) -> list[int]:
    """The supervisor's workers; its resource tracker is a child too, but not one that serves."""
    return [pid for pid in children(holdfast.process.pid) if b"spawn_main" in command_of(pid)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # It has gone by itself just now.
        return b""


async def both_workers_of(holdfast: HoldfastProcess) -> list[int]:
    """A server is ready as soon as one of them is."""
    await until(lambda: len(workers_of(holdfast)) == 2)
    return workers_of(holdfast)


async def test_two_servers_of_two_workers_sell_one_pool_and_stop_well(
    postgres_database_url: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        servers = await asyncio.gather(
            *[
                stack.enter_async_context(serving(tmp_path / name, *WORKERS, database_url=postgres_database_url))
                for name in "ab"
            ]
        )
        clients = [await stack.enter_async_context(holdfast.client()) for holdfast in servers]
        await make_pool(clients[0], 150)
        answers = await asyncio.gather(*[ask(clients[n % 2], f"k{n}") for n in range(400)])
        assert sorted(answer.status_code for answer in answers) == [200] * 150 + [409] * 250
        assert (await stock(clients[1]))["held"] == 150
        assert await asyncio.gather(*[holdfast.stop() for holdfast in servers]) == [0, 0]


async def test_workers_do_not_outlive_a_supervisor_that_was_killed(postgres_database_url: str, tmp_path: Path) -> None:
    async with serving(tmp_path / "data", *WORKERS, database_url=postgres_database_url) as holdfast:
        workers = await both_workers_of(holdfast)
        holdfast.kill()
        await until(lambda: not any(map(is_running, workers)))


async def test_a_worker_that_dies_is_replaced(postgres_database_url: str, tmp_path: Path) -> None:
    async with serving(tmp_path / "data", *WORKERS, database_url=postgres_database_url) as holdfast:
        [dying, staying] = await both_workers_of(holdfast)
        os.kill(dying, signal.SIGKILL)
        await until(lambda: len(set(workers_of(holdfast)) - {dying}) == 2)
        assert staying in workers_of(holdfast)
        assert await holdfast.stop() == 0


async def test_a_stop_while_a_worker_is_being_replaced_is_still_a_stop(
    postgres_database_url: str, tmp_path: Path
) -> None:
    async with serving(tmp_path / "data", *WORKERS, database_url=postgres_database_url) as holdfast:
        os.kill((await both_workers_of(holdfast))[0], signal.SIGKILL)
        await until(lambda: "worker_died" in holdfast.log.read_text())
        assert await holdfast.stop() == 0


async def test_a_stop_while_the_workers_are_being_started_is_still_a_stop(
    postgres_database_url: str, tmp_path: Path
) -> None:
    holdfast = HoldfastProcess(tmp_path / "data", *WORKERS, database_url=postgres_database_url)
    holdfast.launch()
    try:
        await until(lambda: bool(workers_of(holdfast)))
        assert await holdfast.stop() == 0
    finally:
        holdfast.kill()


async def test_a_worker_that_hangs_cannot_keep_a_supervisor_from_stopping(
    postgres_database_url: str, tmp_path: Path
) -> None:
    async with serving(tmp_path / "data", *WORKERS, database_url=postgres_database_url) as holdfast:
        workers = await both_workers_of(holdfast)
        os.kill(workers[0], signal.SIGSTOP)
        assert await holdfast.stop() == 0
        assert not any(map(is_running, workers))
