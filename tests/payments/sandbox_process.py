"""`holdfast sandbox` as a process."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from forking import HOLDFAST, Process, start
from holdfast.lab.load.engines import free_port

START_TIMEOUT_S = 60.0
_INHERITED = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


class SandboxProcess:
    def __init__(self, directory: Path, *options: str, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / f"sandbox-{self.port}.log"
        self._directory = directory
        self._options = options
        self._environment = _INHERITED | {f"HOLDFAST_{name.upper()}": value for name, value in settings.items()}
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None, "the sandbox was not started"
        return self._process

    def launch(self) -> None:
        command = [*HOLDFAST, "sandbox", "--port", str(self.port), *self._options]
        with self.log.open("ab") as log:
            self._process = start(command, cwd=self._directory, env=self._environment, stdout=log, stderr=log)

    async def start(self) -> None:
        self.launch()
        async with asyncio.timeout(START_TIMEOUT_S), self.client() as client:
            while not await _answers(client):
                assert self.process.poll() is None, f"the sandbox did not start:\n{self.log.read_text()}"
                await asyncio.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=60.0, verify=False, trust_env=False)

    async def set_faults(self, **faults: Any) -> None:
        async with self.client() as client:
            answer = await client.put("/faults", json=faults)
            assert answer.status_code == 200, answer.text

    async def books(self, limit: int = 1000) -> list[dict[str, Any]]:
        """Everything, page by page."""
        payments: list[dict[str, Any]] = []
        after: int | None = 0
        async with self.client() as client:
            while after is not None:
                page = (await client.get("/books", params={"after": after, "limit": limit})).json()
                payments += page["payments"]
                after = page["next"]
        return payments


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/faults")).status_code == 200
    except httpx.TransportError:
        return False


@asynccontextmanager
async def running_sandbox(directory: Path, *options: str, **settings: str) -> AsyncIterator[SandboxProcess]:
    sandbox = SandboxProcess(directory, *options, **settings)
    try:
        await sandbox.start()
        yield sandbox
    finally:
        sandbox.kill()
