"""The disk is full: writes are refused, nothing acknowledged is lost, and room made is all it takes to go on."""

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from processes import HoldfastProcess, ask, make_pool, serving, stock, until_expired


class SmallDisk:
    """A disk of its own, full once a file has taken what is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._filler = directory / "filler"

    def fill(self, _holdfast: HoldfastProcess) -> None:
        free = os.statvfs(self.directory)
        with self._filler.open("wb") as filler:
            filler.write(b"x" * max(free.f_bavail * free.f_frsize - 65_536, 0))

    def make_room(self, _holdfast: HoldfastProcess) -> None:
        self._filler.unlink()


class SmallFiles:
    """Where no disk can be mounted: files that may not grow any more, which fails a write just the same."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def fill(self, holdfast: HoldfastProcess) -> None:
        largest = max(file.stat().st_size for file in holdfast.data.iterdir())
        resource.prlimit(holdfast.process.pid, resource.RLIMIT_FSIZE, (largest + 65_536, resource.RLIM_INFINITY))

    def make_room(self, holdfast: HoldfastProcess) -> None:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(holdfast.process.pid, resource.RLIMIT_FSIZE, unlimited)


@pytest.fixture(params=["a small disk", "small files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk | SmallFiles]:
    directory = tmp_path / "disk"
    directory.mkdir()
    if request.param == "small files":
        yield SmallFiles(directory)
        return
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(directory)], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip("a disk can be mounted by root only; the other case covers the server's side of it")
    yield SmallDisk(directory)
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


async def until_refused(client: httpx.AsyncClient, answered: dict[str, httpx.Response]) -> list[httpx.Response]:
    """Reserve until the server says no; gives what it said."""
    for turn in range(1_000):
        keys = [f"k{turn}-{n}" for n in range(20)]
        answers = await asyncio.gather(*[ask(client, key) for key in keys])
        answered |= {key: answer for key, answer in zip(keys, answers, strict=True) if answer.status_code == 200}
        refused = [answer for answer in answers if answer.status_code != 200]
        if refused:
            return refused
    raise AssertionError("the disk never filled up")


async def hold_briefly(client: httpx.AsyncClient) -> str:
    request = {"owner_id": "ada", "quantity": 1, "ttl_seconds": 1}
    answer = await client.post("/v1/inventory/sku/reserve", json=request)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["reservation_id"])


async def test_a_full_disk_refuses_loses_nothing_and_recovers(disk: SmallDisk | SmallFiles) -> None:
    """The server's log is on the same disk, as it often is."""
    answered: dict[str, httpx.Response] = {}
    async with serving(disk.directory / "data") as holdfast, holdfast.client() as client:
        await make_pool(client, 1_000_000)
        doomed = await hold_briefly(client)
        disk.fill(holdfast)
        refused = await until_refused(client, answered)
        assert {answer.status_code for answer in refused} == {503}
        assert {answer.headers["content-type"] for answer in refused} == {"application/problem+json"}
        if isinstance(disk, SmallDisk):  # A file that may not grow fails in a way that proves nothing.
            assert {answer.json()["reason"] for answer in refused} == {"not_ready"}
        assert answered
        await check_not_ready(client)
        assert (await stock(client))["held"] >= len(answered)
        some = next(iter(answered.values())).json()
        assert (await client.get(f"/v1/reservations/{some['reservation_id']}")).json() == some

        disk.make_room(holdfast)
        await holdfast.until_ready()
        await check_kept(client, answered)
        # The background work, which met the full disk too, goes on by itself.
        await until_expired(client, doomed)
        await until_expired(client, await hold_briefly(client))
        holdfast.kill()
        await holdfast.start()
        await check_kept(client, answered)


async def check_not_ready(client: httpx.AsyncClient) -> None:
    """Soon, and then for as long as it lasts, although smaller writes may still fit."""
    async with asyncio.timeout(60.0):
        while (await client.get("/healthz/ready")).status_code == 200:  # noqa: ASYNC110 - it raises no event here
            await asyncio.sleep(0.05)
    for _ in range(30):
        ready = await client.get("/healthz/ready")
        assert ready.status_code == 503, ready.text
        assert ready.json()["checks"]["selling"]["reason"] in ("disk_full", "write_failed")
        await asyncio.sleep(0.1)


async def check_kept(client: httpx.AsyncClient, answered: dict[str, httpx.Response]) -> None:
    for key, first in answered.items():
        again = await ask(client, key)
        assert again.json() == first.json()
        assert again.headers["idempotency-replayed"] == "true"
    assert (await ask(client, "a new one")).status_code == 200
    await stock(client)
