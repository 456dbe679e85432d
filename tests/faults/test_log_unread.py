"""Nobody reads the log any more: requests are answered, units return, and a stop is a clean stop all the same."""

import asyncio
import os
import subprocess
from pathlib import Path

from processes import HoldfastProcess, make_pool, until_expired


class Unread(HoldfastProcess):
    """A server whose log goes into a pipe, which the test can close."""

    def launch(self) -> None:
        reader, writer = os.pipe()
        command = self.command("serve", "--port", str(self.port), *self.options)
        self._process = subprocess.Popen(command, env=self.environment, stdout=writer, stderr=writer)
        os.close(writer)
        self._reader = reader

    def stop_reading(self) -> None:
        os.close(self._reader)


async def test_a_log_that_nobody_reads_changes_no_answer_and_ends_no_work(tmp_path: Path) -> None:
    holdfast = Unread(tmp_path / "data")
    try:
        await holdfast.start()
        async with holdfast.client() as client:
            holdfast.stop_reading()
            await make_pool(client, 5)
            body = {"owner_id": "ada", "quantity": 2, "ttl_seconds": 1}
            held = (await client.post("/v1/inventory/sku/reserve", json=body)).json()
            shown = await client.get(f"/v1/reservations/{held['reservation_id']}")
            assert shown.json() == held
            await until_expired(client, held["reservation_id"])
            assert (await client.get("/healthz/ready")).status_code == 200
        assert await holdfast.stop() == 0
    finally:
        await asyncio.to_thread(holdfast.end)
