"""The real payment sandbox as a process, and its records."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from forking import HOLDFAST, start
from holdfast.lab.load.engines import free_port


class Sandbox:
    def __init__(self, port: int, pid: int) -> None:
        self.pid = pid
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=60.0, trust_env=False, verify=False)

    def faults(self, **faults: object) -> None:
        assert self.client.put("/faults", json=faults).status_code == 200

    def books(self) -> dict[str, Any]:
        """What became of each payment, by its key."""
        found: dict[str, Any] = {}
        after: int | None = 0
        while after is not None:
            page = self.client.get("/books", params={"after": after, "limit": 10_000}).json()
            found |= {entry["key"]: entry for entry in page["payments"]}
            after = page["next"]
        return found

    def is_up(self) -> bool:
        try:
            return self.client.get("/faults").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running_sandbox(*options: str) -> Iterator[Sandbox]:
    port = free_port()
    command = [*HOLDFAST, "sandbox", "--port", str(port), *options]
    with Path(os.devnull).open("wb") as log:
        process = start(command, stderr=log)
    sandbox = Sandbox(port, process.pid)
    try:
        deadline = time.monotonic() + 60
        while not sandbox.is_up():
            assert process.poll() is None
            if time.monotonic() > deadline:
                raise TimeoutError("the sandbox did not start")
            time.sleep(0.02)
        yield sandbox
    finally:
        sandbox.client.close()
        process.kill()
        process.wait()
