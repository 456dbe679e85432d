"""PostgreSQL's disk is full: refused plainly, not ready, and back by itself."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from postgres_process import own_postgres
from processes import ask, make_pool, serving, stock

pytestmark = pytest.mark.usefixtures("postgres_url")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    # Not below pytest's directory, which PostgreSQL's user may not enter.
    directory = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))
    options = "size=160m,mode=1777"
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], check=False, capture_output=True
    )
    if mount.returncode:
        directory.rmdir()
        pytest.skip("a disk can be mounted by root only")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)
    directory.rmdir()


def fill(directory: Path) -> Path:
    filler = directory / "filler"
    free = os.statvfs(directory)
    with filler.open("wb") as file:
        file.write(b"x" * max(free.f_bavail * free.f_frsize - 65_536, 0))
    return filler


async def test_a_full_disk_of_postgres_is_named_and_it_recovers(small_disk: Path, tmp_path: Path) -> None:
    with own_postgres(small_disk) as postgres:
        async with serving(tmp_path / "data", database_url=postgres.url) as holdfast, holdfast.client() as client:
            await make_pool(client, 1_000_000)
            filler = fill(small_disk)
            acknowledged, refused = 0, list[httpx.Response]()
            async with asyncio.timeout(60.0):
                while not refused:
                    answers = await asyncio.gather(*[ask(client, f"k{acknowledged}-{n}") for n in range(50)])
                    acknowledged += sum(answer.status_code == 200 for answer in answers)
                    refused = [answer for answer in answers if answer.status_code != 200]
            assert {(answer.status_code, answer.json()["reason"]) for answer in refused} == {(503, "not_ready")}
            async with asyncio.timeout(60.0):
                while (ready := await client.get("/healthz/ready")).status_code == 200:  # noqa: ASYNC110 - it raises no event here
                    await asyncio.sleep(0.05)
            assert ready.json()["checks"]["selling"]["reason"] == "disk_full"
            for _ in range(20):
                assert (await client.get("/healthz/ready")).status_code == 503
                await asyncio.sleep(0.1)
            filler.unlink()
            await holdfast.until_ready()
            assert (await ask(client, "after")).status_code == 200
            assert (await stock(client))["held"] == acknowledged + 1
