"""Commands that work on the ledger wait for a second operator where approvals are on."""

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

from cli_running import Here, Ran
from teams import Team, Window, open_team

pytest_plugins = ("cli_fixtures",)

ON = {"APPROVALS": "true", "APPROVAL_REFUNDS_PER_HOUR": "1", "CONSOLE_URL": "http://127.0.0.1:8000"}


async def prepare(data: Path) -> tuple[dict[str, str], str, list[str]]:
    """An operator who can approve, a running sale, and two orders of it."""
    async with open_team(data, approvals=True) as team:
        bob = await team.operator("admin", "Bob")
        sale_id = await team.sale("2020-01-01T00:00:00Z")
        return bob.cookies, sale_id, [await sold(team, sale_id) for _ in range(2)]


async def sold(team: Team, sale_id: str) -> str:
    given = {"owner_id": uuid4().hex, "quantity": 1}
    held = await team.admin.json("POST", f"/v1/inventory/{sale_id}/reserve", given)
    await team.admin.json("POST", f"/v1/reservations/{held['reservation_id']}/confirm")
    [order, *_] = (await team.admin.json("GET", f"/v1/orders?sale_id={sale_id}"))["data"]
    return str(order["order_id"])


async def approve(data: Path, cookies: dict[str, str], approvals: list[str]) -> list[Any]:
    async with open_team(data, approvals=True) as team:
        bob = Window(team.app, cookies=cookies)
        done = [await bob.json("POST", f"/v1/ops/approvals/{one}/approve") for one in approvals]
        assert {one["requested_by"] for one in done} == {"the command line"}
        return [(one["action"], one["status"]) for one in done]


def asked(ran: Ran) -> str:
    assert ran.code == 1, ran.out
    assert "a second operator must approve this, and nothing was done yet" in ran.err
    assert "http://127.0.0.1:8000/console" in ran.err
    found = re.search(r"POST /v1/ops/approvals/(apr_\w+)/approve", ran.err)
    assert found is not None
    return found[1]


def test_commands_that_cannot_be_undone_wait_and_the_server_carries_them_out(here: Here, tmp_path: Path) -> None:
    data = tmp_path / "data"
    cookies, sale_id, [first, second] = asyncio.run(prepare(data))
    at = ("--data", str(data))
    closing = asked(here("sales", "close", sale_id, *at, **ON))
    assert asked(here("sales", "close", sale_id, *at, **ON)) == closing
    assert here("sales", "show", sale_id, *at, "--json").json["state"] == "ready"
    # One refund in an hour needs nobody, and one that was refused does not count.
    assert "no order" in here("orders", "refund", "ord_none", *at, **ON).err
    assert here("orders", "refund", first, *at, **ON).code == 0
    refund = asked(here("orders", "refund", second, "--amount", "40", "--key", "k", *at, **ON))
    asked(here("parked", "drop", "refund:rfd_1", *at, **ON))
    assert "no parked item" in here("parked", "drop", "delivery:1", *at, **ON).err
    done = asyncio.run(approve(data, cookies, [closing, refund]))
    assert done == [("close_sale", 200), ("refund_order", 200)]
    assert here("sales", "show", sale_id, *at, "--json").json["state"] == "closed"
    assert here("orders", "show", second, *at, "--json").json["refunded_amount"] == 40
    # Nothing waits for the end of a sale that has ended.
    assert here("sales", "close", sale_id, *at, **ON).code == 0
