"""What waits for a lock in PostgreSQL."""

import asyncio

import asyncpg

WITHIN_S = 30


async def until_one_waits(other: asyncpg.Connection) -> int:
    """For what this connection has locked. Its process, in the database."""
    waiting = "SELECT pid FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    async with asyncio.timeout(WITHIN_S):
        while (pid := await other.fetchval(waiting)) is None:  # noqa: ASYNC110 - a wait in the database tells nobody here
            await asyncio.sleep(0.01)
    assert isinstance(pid, int)
    return pid
