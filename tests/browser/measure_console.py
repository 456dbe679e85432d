"""How the console holds up while 5,000 buyers want 500 units.

`PYTHONPATH=tests:tests/http python tests/browser/measure_console.py`

Not a test, because what it measures is a duration, and those depend on what else the machine does. It prints how often
the page showed something new, how long its main thread was blocked at most, and keeps a screenshot.
"""

import asyncio
import json
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from browsing import keep, launch, window
from console_page import watch
from http_sales import Store, in_seconds
from http_serving import Server, started
from http_tokens import buyer_token
from playwright.sync_api import Page, sync_playwright

BUYERS, UNITS, AT_ONCE = 5_000, 500, 100
# What the page notes about itself: every task of its main thread over 50 ms, and each time the figures changed.
OBSERVE = """() => {
  window.tasks = [];
  window.updates = [];
  const noted = (list) => tasks.push(...list.getEntries().map((one) => one.duration));
  new PerformanceObserver(noted).observe({ type: "longtask" });
  new MutationObserver(() => updates.push(performance.now()))
    .observe(document.querySelector(".live"), { attributeFilter: ["data-as-of"] });
}"""


async def _buy(client: httpx.AsyncClient, sale: str, number: int, turn: asyncio.Semaphore) -> int:
    headers = {"Authorization": f"Bearer {buyer_token(f'buyer-{number}')}"}
    async with turn:
        joined = await client.post(f"{sale}/queue", json={}, headers=headers)
        if joined.status_code != 200:
            return joined.status_code
    ticket = headers | {"Holdfast-Ticket": joined.json()["ticket"]}
    for _ in range(60):
        async with turn:
            asked = await client.post(f"{sale}/admission", headers=ticket)
        if asked.status_code == 200:
            break
        await asyncio.sleep(1.0)
    else:
        return asked.status_code
    passed = headers | {"Holdfast-Pass": asked.json()["pass"], "Idempotency-Key": f"k{number}"}
    async with turn:
        bought = await client.post(f"{sale}/purchase", json={"quantity": 1}, headers=passed)
        if bought.status_code == 201 and number % 10:
            await client.post(f"/v1/reservations/{bought.json()['reservation_id']}/confirm", headers=headers)
    return bought.status_code


async def _crowd(server: Server, sale: str) -> None:
    turn, limits = asyncio.Semaphore(AT_ONCE), httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(
        base_url=server.url, timeout=60, verify=False, trust_env=False, limits=limits
    ) as client:
        await asyncio.gather(*[_buy(client, sale, number, turn) for number in range(BUYERS)], return_exceptions=True)


def _fill_wallets(server: Server) -> None:
    for number in range(0, BUYERS, 2):
        money = {"amount": 20_000, "currency": "EUR", "idempotency_key": "start"}
        server.client.post(f"/v1/wallets/buyer-{number}/credit", json=money)


def _report(page: Page, seconds: float) -> dict[str, Any]:
    tasks: list[float] = page.evaluate("tasks")
    updates: list[float] = page.evaluate("updates")
    gaps = [later - earlier for earlier, later in pairwise(updates)]
    return {
        "seconds": round(seconds),
        "updates_per_second": round(len(updates) / seconds, 2),
        "longest_gap_ms": round(max(gaps, default=0)),
        "long_tasks": len(tasks),
        "longest_task_ms": round(max(tasks, default=0)),
    }


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
            buying = threading.Thread(target=lambda: asyncio.run(_crowd(server, store.path)))
            buying.start()
            seconds = 0.0
            while buying.is_alive() and seconds < 120:
                page.wait_for_timeout(5_000)
                seconds += 5
                keep(page, f"measured-{seconds:.0f}")
            print(json.dumps(_report(page, seconds) | {"counts": store.counts()}))
        browser.close()


if __name__ == "__main__":
    main()
