"""Behind PgBouncer, which shares the server's sessions among clients, transaction by transaction."""

import asyncio
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from postgres_process import PostgresProcess, own_postgres
from processes import ask, make_pool, serving, stock, until
from test_lost_host import connected, freeze, lose_with_the_pool_locked, sells_again, signal_all
from wire import Wire

from holdfast.lab.load.engines import free_port
from holdfast.ledger.engine.limits import LIMITS

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
pytestmark = [
    pytest.mark.usefixtures("postgres_url"),
    pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed"),
]

# Fewer than the connections of one server.
CONFIGURATION = """
[databases]
* = host={socket} port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
{more}
"""
IGNORED = ["jit", "plan_cache_mode", "client_connection_check_interval", "tcp_keepalives_idle", *LIMITS]
IGNORED += ["tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"]


@asynccontextmanager
async def pgbouncer(postgres: PostgresProcess, directory: Path, more: str = "") -> AsyncIterator[str]:
    """The address of the server behind it."""
    port = free_port()
    file, log = directory / "pgbouncer.ini", directory / "pgbouncer.log"
    file.write_text(CONFIGURATION.format(socket=postgres.data, port=port, more=more))
    own = [] if postgres.user is None else ["-u", postgres.user]
    command = [str(PGBOUNCER), *own, "/dev/stdin"]
    with log.open("wb") as out, file.open("rb") as configuration:
        process = subprocess.Popen(command, stdin=configuration, stdout=out, stderr=out)  # noqa: ASYNC220 - it is quick
    try:
        await until(lambda: "process up" in log.read_text())
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("is_configured", [False, True], ids=["as it comes", "configured"])
async def test_it_sells_in_transaction_mode_and_doctor_names_the_limits_that_are_missing(
    tmp_path: Path, is_configured: bool
) -> None:
    more = f"ignore_startup_parameters = {','.join(IGNORED)}" if is_configured else ""
    with own_postgres() as postgres:
        async with pgbouncer(postgres, tmp_path, more) as url:
            address = f"{url}?statement_cache_size=0" if is_configured else url
            async with serving(tmp_path / "data", database_url=address) as holdfast, holdfast.client() as client:
                await make_pool(client, 1_000)
                answers = await asyncio.gather(*[ask(client, f"k{n}") for n in range(200)])
                assert {answer.status_code for answer in answers} == {200}
                gone = answers[0].json()["reservation_id"]
                assert (await client.delete(f"/v1/reservations/{gone}")).status_code == 204
                assert (await stock(client))["held"] == 199
                doctor = holdfast.run_command("doctor")
                assert "lock_timeout" in doctor.stdout
                for name, value in LIMITS.items():
                    statement = f'ALTER ROLE "postgres" IN DATABASE "postgres" SET {name} = {value}'
                    assert statement in doctor.stdout
                    postgres.sql(statement)
        async with pgbouncer(postgres, tmp_path, more) as url:
            holdfast.settings["database_url"] = f"{url}?statement_cache_size=0" if is_configured else url
            assert "are released within seconds" in holdfast.run_command("doctor").stdout


async def test_what_a_lost_host_has_locked_is_free_again_without_any_configuration(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(own_postgres())
        url = await stack.enter_async_context(pgbouncer(postgres, tmp_path))
        lost = await stack.enter_async_context(serving(tmp_path / "lost", "--no-background", database_url=url))
        other = await stack.enter_async_context(serving(tmp_path / "other", "--no-background", database_url=url))
        theirs = await stack.enter_async_context(lost.client())
        client = await stack.enter_async_context(other.client())
        observer: asyncpg.Connection = await stack.enter_async_context(connected(postgres.url))
        await make_pool(client, 100)
        wire = Wire(postgres.data)
        changing = await lose_with_the_pool_locked(observer, theirs, lambda: freeze(lost, wire))
        await sells_again(client)
        signal_all(lost, signal.SIGCONT)
        assert (await changing).status_code == 503
