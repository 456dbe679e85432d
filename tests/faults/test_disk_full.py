"""The disk is full: writes are refused, nothing acknowledged is lost, and room made is all it takes to go on."""

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from processes import HouseProcess, ask, make_pool, serving, stock, until_expired


class SmallDisk:
    """A disk of its own, full once a file has taken what is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._filler = directory / "filler"

    def fill(self, _house: HouseProcess) -> None:
        free = os.statvfs(self.directory)
        with self._filler.open("wb") as filler:
            filler.write(b"x" * max(free.f_bavail * free.f_frsize - 65_536, 0))

    def make_room(self, _house: HouseProcess) -> None:
        self._filler.unlink()


class SmallFiles:
    """Where no disk can be mounted: files that may not grow any more, which fails a write just the same."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def fill(self, house: HouseProcess) -> None:
        largest = max(file.stat().st_size for file in house.data.iterdir())
        resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE, (largest + 65_536, resource.RLIM_INFINITY))

    def make_room(self, house: HouseProcess) -> None:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(house.process.pid, resource.RLIMIT_FSIZE, unlimited)


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
    async with serving(disk.directory / "data") as house, house.client() as client:
        await make_pool(client, 1_000_000)
        doomed = await hold_briefly(client)
        disk.fill(house)
        refused = await until_refused(client, answered)
        assert {answer.status_code for answer in refused} == {503}
        assert {answer.headers["content-type"] for answer in refused} == {"application/problem+json"}
        assert answered
        assert (await stock(client))["held"] >= len(answered)
        some = next(iter(answered.values())).json()
        assert (await client.get(f"/v1/reservations/{some['reservation_id']}")).json() == some

        disk.make_room(house)
        await check_kept(client, answered)
        # The background work, which met the full disk too, goes on by itself.
        await until_expired(client, doomed)
        await until_expired(client, await hold_briefly(client))
        house.kill()
        await house.start()
        await check_kept(client, answered)


async def check_kept(client: httpx.AsyncClient, answered: dict[str, httpx.Response]) -> None:
    for key, first in answered.items():
        again = await ask(client, key)
        assert again.json() == first.json()
        assert again.headers["idempotency-replayed"] == "true"
    assert (await ask(client, "a new one")).status_code == 200
    await stock(client)
