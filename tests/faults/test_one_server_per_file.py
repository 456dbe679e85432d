"""SQLite serves one server process: a second one is told what to do, while short commands go on working beside it."""

import json
from pathlib import Path

import pytest
from processes import HoldfastProcess, make_pool, serving, stock


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def test_a_second_server_on_the_same_file_is_refused_with_what_to_do(data: Path) -> None:
    async with serving(data) as holdfast:
        second = HoldfastProcess(data)
        second.log = data.with_name("second.log")
        second.launch()
        try:
            assert await second.exit_status() == 2
        finally:
            second.end()
        said = second.log.read_text()
        for part in (f"process {holdfast.process.pid}", "--data", "HOLDFAST_DATABASE_URL=postgresql://"):
            assert part in said
        assert "Traceback" not in said
        async with holdfast.client() as client:
            await make_pool(client, 5)


async def test_a_server_can_start_where_another_was_killed(data: Path) -> None:
    async with serving(data) as holdfast:
        holdfast.kill()
        await holdfast.start()


async def test_the_command_line_changes_stock_beside_a_running_server(data: Path) -> None:
    async with serving(data) as holdfast, holdfast.client() as client:
        await make_pool(client, 5)
        restocked = holdfast.run_command("pools", "restock", "sku", "--units", "7", "--json")
        assert restocked.returncode == 0, restocked.stderr
        assert json.loads(restocked.stdout)["total_units"] == 12
        assert (await stock(client))["available"] == 12


async def test_a_server_that_is_told_to_stop_finishes_and_exits_well(data: Path) -> None:
    async with serving(data) as holdfast:
        assert await holdfast.stop() == 0
