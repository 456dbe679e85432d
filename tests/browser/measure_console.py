"""Measures the console while 5,000 buyers compete for 500 units.

`PYTHONPATH=tests:tests/http:tests/browser python tests/browser/measure_console.py`

Not a test: durations depend on what else the machine does. It prints how often the page updated and how long its main
thread was blocked, and saves a screenshot.
"""

import asyncio
import json
import multiprocessing
import tempfile
from collections import deque
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

from browsing import keep, launch, window
from console_page import watch
from http_sales import Store, in_seconds
from http_serving import Server, started
from http_tokens import buyer_token
from playwright.sync_api import Browser, Page, sync_playwright

BUYERS, UNITS, CONNECTIONS, TIMEOUT_S = 5_000, 500, 100, 120
# Records every task of the main thread over 50 ms, and every change of the figures.
OBSERVE = """() => {
  window.tasks = [];
  window.updates = [];
  const record = (list) => tasks.push(...list.getEntries().map((one) => one.duration));
  new PerformanceObserver(record).observe({ type: "longtask" });
  new MutationObserver(() => updates.push(performance.now()))
    .observe(document.querySelector(".live"), { attributeFilter: ["data-as-of"] });
}"""


class _Connection:
    """A share of the buyers on one raw connection, so that the client costs little."""

    def __init__(self, port: int, sale: str, buyers: list[int]) -> None:
        self._port, self._sale = port, sale
        self._heads = {number: f"Authorization: Bearer {buyer_token(f'buyer-{number}')}\r\n" for number in buyers}

    async def run(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        waiting = deque[tuple[int, str]]()
        for number, head in self._heads.items():
            status, joined = await self._post(f"{self._sale}/queue", head)
            if status == 200:
                waiting.append((number, f"{head}Holdfast-Ticket: {joined['ticket']}\r\n"))
        while waiting:
            number, head = waiting.popleft()
            status, answer = await self._post(f"{self._sale}/admission", head)
            if status == 200:
                await self._buy(number, answer["pass"])
            elif status in (202, 503):
                waiting.append((number, head))
                await asyncio.sleep(0.02)

    async def _buy(self, number: int, pass_: str) -> None:
        head = f"{self._heads[number]}Holdfast-Pass: {pass_}\r\nIdempotency-Key: k{number}\r\n"
        status, bought = await self._post(f"{self._sale}/purchase", head, '{"quantity": 1}')
        if status == 201 and number % 10:
            await self._post(f"/v1/reservations/{bought['reservation_id']}/confirm", self._heads[number])

    async def _post(self, path: str, head: str, body: str = "") -> tuple[int, dict[str, Any]]:
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(answer[9:12]), json.loads(await self._reader.readexactly(length) or "{}")


async def _arrive(port: int, sale: str) -> None:
    connections = [_Connection(port, sale, list(range(first, BUYERS, CONNECTIONS))) for first in range(CONNECTIONS)]
    await asyncio.gather(*[one.run() for one in connections])


def crowd(port: int, sale: str) -> None:
    """Runs in its own process, so that it does not slow down the browser's driver."""
    asyncio.run(_arrive(port, sale))


def _fill_wallets(server: Server) -> None:
    for number in range(0, BUYERS, 2):
        money = {"amount": 20_000, "currency": "EUR", "idempotency_key": "start"}
        server.client.post(f"/v1/wallets/buyer-{number}/credit", json=money)


def _report(page: Page) -> dict[str, Any]:
    tasks: list[float] = page.evaluate("tasks")
    updates: list[float] = page.evaluate("updates")
    seconds = (updates[-1] - updates[0]) / 1000
    gaps = [later - earlier for earlier, later in pairwise(updates)]
    return {
        "seconds": round(seconds),
        "updates_per_second": round(len(updates) / seconds, 2),
        "longest_gap_ms": round(max(gaps, default=0)),
        "long_tasks": len(tasks),
        "longest_task_ms": round(max(tasks, default=0)),
    }


def _longest_cpu_ms(trace: bytes) -> float:
    """The longest task of the pages' main threads in CPU time, without waiting for a core."""
    events = json.loads(trace)["traceEvents"]
    named = [e for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"]
    mains = {(e["pid"], e["tid"]) for e in named}
    durations: list[float] = [e.get("tdur", 0) for e in events if (e["pid"], e["tid"]) in mains and e["ph"] == "X"]
    return max(durations) / 1000


def _take_screenshot(browser: Browser, store: Store) -> None:
    """Uses a window of its own, because a screenshot blocks the page."""
    with window(browser, viewport={"width": 1440, "height": 1120}) as other:
        watch(other, store)
        other.wait_for_timeout(20_000)
        keep(other, "console-crowd")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        started(Path(place)) as server,
        sync_playwright() as playwright,
    ):
        store = Store(server, "aurora", "aurora-42")
        room = {"mode": "fifo", "rate_per_second": 200, "pass_seconds": 30}
        store.open(
            total_units=UNITS, name="Aurora Runner, size 42", price={"amount": 12_900, "currency": "EUR"},
            room=room, hold_seconds=20, starts_at=in_seconds(-1),
        )  # fmt: skip
        _fill_wallets(server)
        browser = launch(playwright)
        with window(browser, viewport={"width": 1600, "height": 1000}) as page:
            watch(page, store)
            page.evaluate(OBSERVE)
            buying = multiprocessing.get_context("spawn").Process(target=crowd, args=(server.port, store.path))
            buying.start()
            page.wait_for_timeout(10_000)
            _take_screenshot(browser, store)
            browser.start_tracing(page=page, categories=["toplevel"])
            until = monotonic() + TIMEOUT_S
            while buying.is_alive() and monotonic() < until:
                page.wait_for_timeout(1_000)
            buying.terminate()
            cpu = {"longest_task_cpu_ms": _longest_cpu_ms(browser.stop_tracing())}
            print(json.dumps(_report(page) | cpu | {"counts": store.counts()}))
        browser.close()


if __name__ == "__main__":
    main()
