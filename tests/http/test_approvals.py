"""What cannot be undone waits for a second operator."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, update
from teams import PASSWORD, Team, Window, open_team

from holdfast.ledger.access.approvals import finish
from holdfast.ledger.tables.access import approvals, operator_actions
from holdfast.ledger.tables.money import refunds

APPROVALS = "/v1/ops/approvals"


@pytest.fixture(scope="module")
async def team(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Team]:
    async with open_team(tmp_path_factory.mktemp("team"), approvals=True, approval_refunds_per_hour=2) as team:
        yield team


@pytest.fixture(scope="module")
async def ada(team: Team) -> Window:
    return await team.operator("admin")


@pytest.fixture(scope="module", autouse=True)
async def bob(team: Team) -> Window:
    return await team.operator("admin", "Bob")


async def asked(window: Window, path: str, body: object = None, key: str | None = None, method: str = "POST") -> str:
    """The ID of the approval that a request waits for."""
    answer = await window.ask(method, path, body, key)
    problem = json.loads(answer.body)
    assert (answer.status, problem["reason"], problem["retryable"]) == (409, "approval_required", False)
    return str(problem["approval_id"])


async def running_sale(team: Team) -> str:
    return await team.sale("2020-01-01T00:00:00Z")


async def state_of(team: Team, sale_id: str) -> Any:
    return (await team.admin.json("GET", f"/v1/sales/{sale_id}"))["state"]


async def test_with_one_operator_nothing_waits(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with open_team(tmp_path_factory.mktemp("alone"), approvals=True) as alone:
        only = await alone.operator("admin")
        sale_id = await running_sale(alone)
        assert (await only.json("POST", f"/v1/sales/{sale_id}/close"))["state"] == "closed"


async def test_a_running_sale_is_closed_once_another_operator_approves(team: Team, ada: Window, bob: Window) -> None:
    sale_id = await running_sale(team)
    path = f"/v1/sales/{sale_id}/close"
    approval_id = await asked(ada, path)
    assert await asked(ada, path) == approval_id, "a repeat is the same request"
    assert await state_of(team, sale_id) != "closed"
    decide = f"{APPROVALS}/{approval_id}"
    assert await ada.refused("POST", f"{decide}/approve") == "approval_by_another"
    assert await team.admin.refused("POST", f"{decide}/approve") == "approval_by_another"
    support = await team.operator("support")
    assert await support.refused("POST", f"{decide}/approve") == "forbidden"
    done = await bob.json("POST", f"{decide}/approve")
    assert (done["state"], done["status"], done["subject"]) == ("approved", 200, f"sale:{sale_id}")
    assert await state_of(team, sale_id) == "closed"
    assert await bob.refused("POST", f"{decide}/approve") == "approval_decided"
    recorded = [(one["operator"], one["action"], one["status"]) for one in await team.actions(f"sale:{sale_id}")][:3]
    assert recorded == [
        ("Ada admin, approved by Bob admin", "close_sale", 200),
        ("Ada admin", "close_sale", 409),
        ("Ada admin", "close_sale", 409),
    ]
    approved = await team.actions(f"approval:{approval_id}")
    assert [(one["action"], one["status"]) for one in approved][:2] == [
        ("approve_request", 409),
        ("approve_request", 200),
    ]


async def test_a_sale_that_has_not_begun_is_closed_at_once(team: Team, ada: Window) -> None:
    assert (await ada.json("POST", f"/v1/sales/{await team.sale()}/close"))["state"] == "closed"


async def test_the_end_of_a_running_sale_is_brought_forward_by_two(team: Team, ada: Window, bob: Window) -> None:
    sale_id = await running_sale(team)
    path = f"/v1/sales/{sale_id}"
    soon, later = {"ends_at": "2040-01-01T00:00:00Z"}, {"ends_at": "2041-01-01T00:00:00Z"}
    approval_id = await asked(ada, path, soon, method="PATCH")
    assert (await team.admin.json("GET", path))["ends_at"] is None
    assert (await bob.json("POST", f"{APPROVALS}/{approval_id}/approve"))["status"] == 200
    assert (await team.admin.json("GET", path))["ends_at"] == "2040-01-01T00:00:00.000Z"
    # Later, another name, or before it begins: at once.
    await ada.json("PATCH", path, later | {"name": "Lamps"})
    await ada.json("PATCH", f"/v1/sales/{await team.sale()}", soon)
    assert await ada.refused("PATCH", path, {"ends_at": "2021-01-01T00:00:00Z"}) == "invalid_request"
    await asked(ada, path, soon, method="PATCH")


async def test_a_policy_that_would_cancel_orders_of_a_sale_that_is_short_needs_approval(
    team: Team, ada: Window, bob: Window
) -> None:
    order_id = await sold(team)
    sale_id = (await ada.json("GET", f"/v1/orders/{order_id}"))["sale_id"]
    path, cancel = f"/v1/sales/{sale_id}", {"oversell_policy": "cancel_last"}
    await ada.json("PATCH", path, cancel)
    compensation = await asked(ada, f"/v1/ops/sales/{sale_id}/compensate", {"deliverable_units": 0})
    await bob.json("POST", f"{APPROVALS}/{compensation}/approve")
    assert (await ada.json("GET", f"/v1/orders/{order_id}"))["status"] == "confirmed"
    await asked(ada, path, {"review_above_percent": 100}, method="PATCH")
    await ada.json("PATCH", path, {"oversell_policy": "fulfil_first"})
    await asked(ada, path, cancel | {"review_above_percent": 100}, method="PATCH")
    await ada.json("PATCH", path, cancel)


async def test_a_request_by_a_key_cannot_be_approved_by_the_operator_who_made_the_key(
    team: Team, ada: Window, bob: Window
) -> None:
    key = (await ada.json("POST", "/v1/ops/keys", {"name": "till", "scopes": ["sales"]}, 201))["key"]
    sale_id = await running_sale(team)
    approval_id = await asked(Window(team.app, key), f"/v1/sales/{sale_id}/close")
    assert await ada.refused("POST", f"{APPROVALS}/{approval_id}/approve") == "approval_by_another"
    assert (await bob.json("POST", f"{APPROVALS}/{approval_id}/approve"))["status"] == 200


@pytest.mark.parametrize("by_a_key_of_its_own", [False, True])
async def test_a_request_that_names_nobody_is_approved_by_two_operators(
    team: Team, ada: Window, bob: Window, by_a_key_of_its_own: bool
) -> None:
    nobody = team.admin
    if by_a_key_of_its_own:
        given = {"name": "batch", "scopes": ["sales"]}
        nobody = Window(team.app, (await team.admin.json("POST", "/v1/ops/keys", given, 201))["key"])
    sale_id = await running_sale(team)
    decide = f"{APPROVALS}/{await asked(nobody, f'/v1/sales/{sale_id}/close')}/approve"
    # Ada may be the one who has that key.
    once = await ada.json("POST", decide)
    assert (once["state"], once["decided_by"], once["status"]) == ("pending", "Ada admin", None)
    assert await state_of(team, sale_id) != "closed"
    assert await ada.refused("POST", decide) == "approval_by_another"
    twice = await bob.json("POST", decide)
    assert (twice["state"], twice["decided_by"], twice["status"]) == ("approved", "Ada admin and Bob admin", 200)
    assert await state_of(team, sale_id) == "closed"
    assert (await team.actions(f"sale:{sale_id}"))[0]["operator"].endswith(", approved by Ada admin and Bob admin")


async def test_who_repeats_an_approval_whose_outcome_is_not_known_replaces_nobody_on_the_record(
    team: Team, ada: Window, bob: Window
) -> None:
    sale_id = await running_sale(team)
    approval_id = await asked(team.admin, f"/v1/sales/{sale_id}/close")
    decide = f"{APPROVALS}/{approval_id}/approve"
    for operator in (ada, bob):
        await operator.json("POST", decide)
    await team.execute(update(approvals).where(approvals.c.approval_id == approval_id).values(status=None))
    again = await bob.json("POST", decide)
    assert (again["state"], again["decided_by"], again["status"]) == ("approved", "Ada admin and Bob admin", 200)
    assert (await team.actions(f"sale:{sale_id}"))[0]["operator"].endswith(", approved by Ada admin and Bob admin")


async def test_one_operator_is_enough_for_a_request_that_names_nobody_where_there_is_only_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with open_team(tmp_path_factory.mktemp("one"), approvals=True) as one:
        only, sale_id = await one.operator("admin"), await running_sale(one)
        approval_id = await asked(one.admin, f"/v1/sales/{sale_id}/close")
        assert (await only.json("POST", f"{APPROVALS}/{approval_id}/approve"))["status"] == 200


async def test_an_approval_does_not_wait_for_a_second_operator_who_is_gone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with open_team(tmp_path_factory.mktemp("gone"), approvals=True) as team:
        stays, sale_id = await team.operator("admin"), await running_sale(team)
        goes, token = await team.invited("admin", name="Bob")
        await Window(team.app).json("POST", "/v1/console/invitation", {"token": token, "password": PASSWORD})
        decide = f"{APPROVALS}/{await asked(team.admin, f'/v1/sales/{sale_id}/close')}/approve"
        assert (await stays.json("POST", decide))["state"] == "pending"
        await team.admin.json("POST", f"/v1/ops/operators/{goes['operator_id']}/disable")
        approved = await stays.json("POST", decide)
        assert (approved["state"], approved["decided_by"], approved["status"]) == ("approved", "Ada admin", 200)


async def test_a_rejected_or_expired_request_is_never_carried_out(team: Team, ada: Window, bob: Window) -> None:
    sale_id = await running_sale(team)
    path = f"/v1/ops/sales/{sale_id}/compensate"
    rejected = await asked(ada, path, {"deliverable_units": 1})
    assert (await bob.json("POST", f"{APPROVALS}/{rejected}/reject"))["state"] == "rejected"
    expired = await asked(ada, path, {"deliverable_units": 1})
    assert expired != rejected
    [pending] = [one for one in await pending_of(bob) if one["approval_id"] == expired]
    assert (pending["request"], pending["requested_by"]) == ({"deliverable_units": 1}, "Ada admin")
    await team.execute(update(approvals).where(approvals.c.approval_id == expired).values(expires_at=1))
    for approval_id in (rejected, expired):
        assert await bob.refused("POST", f"{APPROVALS}/{approval_id}/approve") == "approval_decided"
    assert not [one for one in await pending_of(bob) if one["approval_id"] == expired]
    assert await bob.refused("POST", f"{APPROVALS}/apr_none/approve") == "approval_not_found"


async def pending_of(window: Window) -> list[dict[str, Any]]:
    return list((await window.json("GET", f"{APPROVALS}?state=pending"))["data"])


async def test_parked_money_is_dropped_by_two_and_the_outcome_says_why_it_was_not(
    team: Team, ada: Window, bob: Window
) -> None:
    refund_id = f"rfd_{uuid4().hex}"
    approval_id = await asked(ada, f"/v1/ops/parked/refund:{refund_id}/drop")
    row = {"refund_id": refund_id, "payment_key": "p", "sku_id": "s", "amount": 1, "currency": "EUR"}
    row |= {"key": "k", "cause": "asked", "state": "done", "due_at": 0, "created_at": 0}
    await team.execute(insert(refunds).values(row))
    done = await bob.json("POST", f"{APPROVALS}/{approval_id}/approve")
    assert (done["state"], done["status"], done["reason"]) == ("approved", 404, "parked_not_found")
    assert await ada.refused("POST", f"/v1/ops/parked/delivery:{uuid4().hex}/drop") == "parked_not_found"


async def test_refunds_beyond_so_many_in_an_hour_need_approval(team: Team, bob: Window) -> None:
    finance = await team.operator("finance")
    for _ in range(4):
        # Refused ones do not count.
        answer = await finance.ask("POST", f"/v1/orders/ord_{uuid4().hex}/refund", {}, uuid4().hex)
        assert json.loads(answer.body)["reason"] == "order_not_found"
    orders = [await sold(team) for _ in range(3)]
    for order_id in orders[:2]:
        assert (await finance.ask("POST", f"/v1/orders/{order_id}/refund", {}, "k")).status == 200
    # However much else was done since.
    other = {"at": 2**45, "phase": "begun", "operator": "Fay", "action": "retry_parked"}
    await team.execute(insert(operator_actions).values([{"action_id": f"act_{n}", **other} for n in range(5_100)]))
    approval_id = await asked(finance, f"/v1/orders/{orders[2]}/refund", {"reason": "late"}, "k")
    assert (await bob.json("POST", f"{APPROVALS}/{approval_id}/approve"))["status"] == 200
    assert (await bob.json("GET", f"/v1/orders/{orders[2]}"))["status"] == "refunded"


async def test_of_two_who_approve_at_the_same_time_the_first_outcome_stands(
    team: Team, ada: Window, bob: Window
) -> None:
    sale_id = await running_sale(team)
    approval_id = await asked(ada, f"/v1/sales/{sale_id}/close")
    assert (await bob.json("POST", f"{APPROVALS}/{approval_id}/approve"))["status"] == 200
    await team.services.database.write(lambda c: finish(c, approval_id, 404, "parked_not_found"))
    [found] = [one for one in (await bob.json("GET", APPROVALS))["data"] if one["approval_id"] == approval_id]
    assert (found["status"], found["reason"]) == (200, None)


async def sold(team: Team) -> str:
    sale_id, admin = await running_sale(team), team.admin
    given = {"owner_id": "cid", "quantity": 1}
    held = await admin.json("POST", f"/v1/inventory/{sale_id}/reserve", given)
    await admin.json("POST", f"/v1/reservations/{held['reservation_id']}/confirm")
    [order] = (await admin.json("GET", f"/v1/orders?sale_id={sale_id}"))["data"]
    return str(order["order_id"])
