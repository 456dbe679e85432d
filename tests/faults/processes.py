"""Real server processes, started for one test, that can be killed, stopped and started again on what they left."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from forking import HOLDFAST, Process, run_text, start
from holdfast.lab.load.engines import free_port

SERVICE_KEY = "hf_" + "0123456789abcdef" * 2
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 45.0
# A command that waits for its turn on a busy machine is not dropped, unless that is what the test is about.
QUEUE_TIMEOUT_MS = "30000"
# With four processes, the chance that one of them was never asked is one in 5,000.
IN_A_ROW = 30
NEW_EACH_TIME = {"Connection": "close"}

# What this test run was started with must not reach the servers it starts.
_INHERITED = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
# A machine that runs tests has no CPU left, and optional reads would be off.
_INHERITED["HOLDFAST_SHED_HOST_PERCENT"] = "0"


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def until(condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Wait for something another process does, which raises no event here."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


class HoldfastProcess:
    """`holdfast serve`, on a port and in a directory of its own."""

    def __init__(self, data: Path, *options: str, **settings: str) -> None:
        self.data = data
        self.options = options
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data.with_name(f"{data.name}.log")
        self.settings = settings
        self._process: Process | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        own = {
            "HOLDFAST_DATA": str(self.data),
            "HOLDFAST_SERVICE_KEY": SERVICE_KEY,
            "HOLDFAST_QUEUE_TIMEOUT_MS": QUEUE_TIMEOUT_MS,
        }
        return _INHERITED | own | {f"HOLDFAST_{name.upper()}": value for name, value in self.settings.items()}

    def command(self, *arguments: str) -> list[str]:
        return [*HOLDFAST, *arguments]

    def launch(self) -> None:
        with self.log.open("ab") as log:
            command = self.command("serve", "--port", str(self.port), *self.options)
            self._process = start(command, env=self.environment, stdout=log, stderr=log)

    async def start(self) -> None:
        self.launch()
        await self.until_ready()

    async def until_ready(self) -> None:
        """Each process of several is ready by itself, and the kernel chooses which of them a connection reaches."""
        in_a_row, wanted = 0, IN_A_ROW if "--workers" in self.options else 1
        async with asyncio.timeout(START_TIMEOUT_S), self.client() as client:
            while in_a_row < wanted:
                if await _answers(client):
                    in_a_row += 1
                    continue
                in_a_row = 0
                assert self.process.poll() is None, f"the server did not start:\n{self.log.read_text()}"
                await asyncio.sleep(0.02)

    @property
    def process(self) -> Process:
        assert self._process is not None, "the server was not started"
        return self._process

    def end(self) -> None:
        """Whatever was done to it, and if it was never started."""
        if self._process is not None:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def exit_status(self, within_s: float = STOP_TIMEOUT_S) -> int:
        return await asyncio.to_thread(self.process.wait, within_s)

    async def stop(self) -> int:
        """SIGTERM, and the exit status it promises to have within ten seconds, if nobody else needs the machine."""
        self.process.send_signal(signal.SIGTERM)
        return await self.exit_status()

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another `holdfast` command, with the same settings."""
        return run_text(self.command(*arguments), env=self.environment, timeout=START_TIMEOUT_S)

    def client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {SERVICE_KEY}"}
        limits = httpx.Limits(max_connections=100)
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60.0, limits=limits, verify=False)


class WorkerProcess(HoldfastProcess):
    """`holdfast worker`: nobody can ask it whether it is ready."""

    def launch(self) -> None:
        with self.log.open("ab") as log:
            self._process = start(self.command("worker"), env=self.environment, stdout=log, stderr=log)

    async def start(self) -> None:
        self.launch()


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/healthz/ready", timeout=15.0, headers=NEW_EACH_TIME)).status_code == 200
    except httpx.TransportError:
        return False


@asynccontextmanager
async def serving(data: Path, *options: str, **settings: str) -> AsyncIterator[HoldfastProcess]:
    """A server that is ready; whatever the test did to it, nothing of it is left afterwards."""
    holdfast = HoldfastProcess(data, *options, **settings)
    try:
        await holdfast.start()
        yield holdfast
    finally:
        left = [holdfast.process.pid, *children(holdfast.process.pid)]
        holdfast.kill()
        for pid in filter(is_running, left):
            with suppress(ProcessLookupError):  # It may have gone by itself just now.
                os.kill(pid, signal.SIGKILL)


async def make_pool(client: httpx.AsyncClient, units: int, sku_id: str = "sku") -> None:
    answer = await client.put(f"/v1/inventory/{sku_id}", json={"total_units": units})
    assert answer.status_code == 200, answer.text


async def ask(client: httpx.AsyncClient, key: str, sku_id: str = "sku") -> httpx.Response:
    request = {"owner_id": "ada", "quantity": 1, "ttl_seconds": 1800, "idempotency_key": key}
    return await client.post(f"/v1/inventory/{sku_id}/reserve", json=request)


async def until_expired(client: httpx.AsyncClient, reservation_id: str) -> None:
    """Wait until a hold was ended by the background work, which raises no event here. A look at it does not end it."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while "reservation.expired" not in await _history(client, reservation_id):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


async def _history(client: httpx.AsyncClient, reservation_id: str) -> list[str]:
    answer = await client.get(f"/v1/reservations/{reservation_id}/history")
    assert answer.status_code == 200, answer.text
    return [event["type"] for event in answer.json()["events"]]


async def stock(client: httpx.AsyncClient, sku_id: str = "sku") -> dict[str, Any]:
    answer = await client.get(f"/v1/inventory/{sku_id}/available")
    body: dict[str, Any] = answer.json()
    assert body["available"] + body["held"] + body["sold"] == body["total_units"]
    return body
