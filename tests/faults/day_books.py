"""What is left of a selling day: what buyers heard, the orders, and the payment provider's own books."""

import json
import sqlite3
from collections import Counter
from typing import Any

import httpx
from processes import HoldfastProcess

# Each with the check of `holdfast verify` that has to find it.
WOUNDS = {
    "a second charge": """
        INSERT INTO payments (payment_key, reservation_id, sale_id, buyer_id, provider, amount, currency, state,
                              created_at, updated_at)
        SELECT 'pay_again', reservation_id || '-again', sale_id, buyer_id, provider, amount, currency, 'captured',
               created_at, updated_at FROM payments WHERE state = 'captured' LIMIT 1""",
    "a unit sold twice": "UPDATE pools SET sold = sold + 1, total = total + 1",
    "an order without payment": """
        DELETE FROM payments WHERE payment_key = (SELECT payment_key FROM payments WHERE state = 'captured' LIMIT 1)""",
    "a wallet entry removed": "DELETE FROM wallet_entries WHERE account = 'buyer:ada'",
    "a payment without order": "DELETE FROM orders WHERE order_id = (SELECT order_id FROM orders LIMIT 1)",
}


class Day:
    """What buyers were told."""

    def __init__(self, price: int) -> None:
        self.price = price
        self.reservations: dict[str, str] = {}
        self.refusals: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.wrong: list[str] = []

    def hear(self, buyer: str, status: int, body: dict[str, Any]) -> None:
        if status not in (200, 201):
            self.refusals[str(body.get("reason"))] += 1
            if status != 409:
                self.wrong.append(f"{buyer} was told {status} {body}")
            return
        first = self.reservations.setdefault(buyer, body["reservation_id"])
        if first != body["reservation_id"] or body["amount"] != self.price or body["status"] != "settling":
            self.wrong.append(f"{buyer} was told {body} after {first}")

    def summary(self) -> str:
        return f"{len(self.reservations)} reserved, ended as {dict(self.ends)}, refused {dict(self.refusals)}"


async def all_pages(client: httpx.AsyncClient, path: str, **filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = (await client.get(path, params={"limit": "100", **filters, **after})).json()
        found += page["data"]
        if not page["has_more"]:
            return found
        after = {"starting_after": next(iter(page["data"][-1].values()))}


async def sandbox_books(url: str) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = 0
    async with httpx.AsyncClient(base_url=url, timeout=30.0, verify=False) as client:
        while after is not None:
            page = (await client.get("/books", params={"after": after, "limit": 5_000})).json()
            found += page["payments"]
            after = page["next"]
    return {entry["charge"]["reservation_id"]: entry for entry in found}


async def compare(day: Day, operator: httpx.AsyncClient, sandbox_url: str, units: int) -> list[str]:
    reservations = {r["reservation_id"]: r for r in await all_pages(operator, "/v1/reservations", sku_id="day-pair")}
    orders = {o["reservation_id"]: o for o in await all_pages(operator, "/v1/orders", sale_id="day")}
    books = await sandbox_books(sandbox_url)
    day.ends.update(r["status"] for r in reservations.values())
    wrong = [f"{id_} of {buyer} is gone" for buyer, id_ in day.reservations.items() if id_ not in reservations]
    pool = (await operator.get("/v1/inventory/day-pair/available")).json()
    sold = sum(o["quantity"] for o in orders.values() if o["status"] == "confirmed")
    if pool["sold"] != sold or pool["available"] + sold != units:
        wrong.append(f"{pool} with {sold} units in orders")
    for id_, reservation in reservations.items():
        wrong += _one_truth(id_, reservation["status"], orders.get(id_), books.get(id_), day.price)
    return wrong + [
        f"the sandbox charged for {id_}, which nobody reserved" for id_ in books.keys() - reservations.keys()
    ]


def _one_truth(
    id_: str, status: str, order: dict[str, Any] | None, entry: dict[str, Any] | None, price: int
) -> list[str]:
    """Confirmed, ordered and captured once; or failed, its order cancelled, and nothing kept of the money."""
    captures, kept = (0, 0) if entry is None else (entry["captures"], entry["captured"] - entry["refunded"])
    if status == "confirmed":
        is_paid = order is not None and (order["status"], order["amount"]) == ("confirmed", price)
        is_right = is_paid and (captures, kept) == (1, price)
    else:
        is_open = entry is not None and entry["state"] == "authorised"
        is_cancelled = order is not None and order["status"] == "cancelled"
        is_right = status == "failed" and is_cancelled and kept == 0 and not is_open
    return [] if is_right else [f"{id_} is {status}: order {order}, sandbox {entry}"]


def wounds_found(server: HoldfastProcess) -> list[str]:
    """`holdfast verify` must fail on each tampered copy of the ledger, and say what is wrong."""
    ledger = server.data / "holdfast.db"
    wrong = []
    for number, (name, statement) in enumerate(WOUNDS.items()):
        copy = server.data.parent / f"tampered{number}.db"
        with sqlite3.connect(ledger) as source, sqlite3.connect(copy) as target:
            source.backup(target)
            target.execute(statement)
        ran = server.run_command("verify", "--json", "--database-url", f"sqlite:///{copy}")
        failed = [check["name"] for check in json.loads(ran.stdout)["checks"] if not check["ok"]] if ran.stdout else []
        print(f"{name}: exit {ran.returncode}, found by {', '.join(failed) or 'nothing'}", flush=True)
        if ran.returncode != 1 or not failed:
            wrong.append(f"{name} was not found: {ran.stdout[-500:]} {ran.stderr[-500:]}")
    return wrong
