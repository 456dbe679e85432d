"""Named operators: invitation and password, OIDC, roles, sessions, and the record of what they did."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from joserfc.jwk import ECKey
from oidc_issuer import CLIENT, Issuer, issuing
from sqlalchemy import Executable, delete, insert, update
from sqlalchemy.exc import DatabaseError
from teams import PASSWORD, Team, Window, open_team

from asking_inside import NoConnection
from holdfast.access import passwords
from holdfast.access.identity import Caller
from holdfast.errors import EngineError
from holdfast.http.contract.message import Request
from holdfast.http.contract.problem import Problem
from holdfast.http.contract.schemas.operate import KeyIn
from holdfast.http.endpoints.keys import KeyEndpoints
from holdfast.http.protection.limits import NETWORK_FACTORS
from holdfast.http.protection.session_cookie import PENDING, PLAIN_PENDING, pending_in
from holdfast.http.protection.sign_in_limits import BY_ADDRESS
from holdfast.ledger.access.keys import EVERY_SCOPE, Scope
from holdfast.ledger.access.operators import SCOPES_OF_ROLE, Role
from holdfast.ledger.tables.access import operator_actions, operators
from holdfast.ledger.tables.money import refunds


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as made:
        yield made


@pytest.fixture(scope="module")
async def team(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> AsyncIterator[Team]:
    async with open_team(tmp_path_factory.mktemp("team"), oidc_issuer=issuer.url, oidc_client_id=CLIENT) as opened:
        yield replace(opened, issuer=issuer)


# --- by invitation and password


async def test_an_invited_operator_sets_a_password_and_signs_in_with_it(team: Team) -> None:
    invited, token = await team.invited("seller")
    window = Window(team.app)
    session = await window.json("POST", "/v1/console/invitation", {"token": token, "password": PASSWORD})
    assert (session["name"], session["role"]) == ("Ada seller", "seller")
    assert (await window.json("GET", "/v1/console/session"))["operator_id"] == invited["operator_id"]
    again = Window(team.app)
    given = {"email": invited["email"].upper(), "password": PASSWORD}
    assert (await again.json("POST", "/v1/console/password", given))["scopes"] == ["inventory", "read", "sales"]


async def test_an_invitation_works_once_and_only_the_newest_one(team: Team) -> None:
    invited, first = await team.invited("viewer")
    _, second = await team.invited("viewer", invited["email"])
    window, given = Window(team.app), {"password": PASSWORD}
    path = "/v1/console/invitation"
    assert await window.refused("POST", path, {"token": first} | given) == "invitation_not_found"
    await window.json("POST", path, {"token": second} | given)
    assert await window.refused("POST", path, {"token": second} | given) == "invitation_not_found"
    assert await window.refused("POST", path, {"token": "made.up"} | given) == "invitation_not_found"
    assert await window.refused("POST", path, {"token": second, "password": "short"}) == "invalid_request"


async def test_a_wrong_password_and_an_unknown_account_are_refused_alike_and_slowed_down(team: Team) -> None:
    invited, token = await team.invited("viewer")
    await Window(team.app).json("POST", "/v1/console/invitation", {"token": token, "password": PASSWORD})
    window, answers = Window(team.app), []
    for email in (invited["email"], "nobody@example.com"):
        answers += [await window.ask("POST", "/v1/console/password", {"email": email, "password": "wrong"})]
    assert answers[0].status == answers[1].status == 401
    assert answers[0].body == answers[1].body
    reasons = [
        await window.refused("POST", "/v1/console/password", {"email": invited["email"], "password": "wrong"})
        for _ in range(5)
    ]
    assert reasons == ["sign_in_refused"] * 4 + ["rate_limited"]


async def test_guesses_at_once_are_counted_before_they_are_checked_and_a_right_one_clears_them(team: Team) -> None:
    invited, token = await team.invited("viewer")
    await Window(team.app).json("POST", "/v1/console/invitation", {"token": token, "password": PASSWORD})
    window, path, wrong = Window(team.app), "/v1/console/password", {"email": invited["email"], "password": "wrong"}
    for _ in range(2):
        assert [await window.refused("POST", path, wrong) for _ in range(4)] == ["sign_in_refused"] * 4
        await window.json("POST", path, wrong | {"password": PASSWORD})
    reasons = await asyncio.gather(*(window.refused("POST", path, wrong) for _ in range(8)))
    assert sorted(reasons) == ["rate_limited"] * 3 + ["sign_in_refused"] * 5


async def test_an_address_has_so_many_tries_whatever_the_accounts_and_invitations(team: Team) -> None:
    window, reasons = Window(team.app, address="203.0.113.7"), list[str]()
    for n in range(21):
        given = {"email": f"{n}@example.com", "password": "wrong"}
        reasons.append(await window.refused("POST", "/v1/console/password", given))
    assert reasons == ["sign_in_refused"] * 20 + ["rate_limited"]
    _, token = await team.invited("viewer")
    given = {"token": token, "password": PASSWORD}
    assert await window.refused("POST", "/v1/console/invitation", given) == "rate_limited"
    await Window(team.app, address="203.0.113.8").json("POST", "/v1/console/invitation", given)


async def test_one_ipv6_network_after_another_tries_no_faster_than_the_network_around_them_may(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.http.protection.sign_in_limits._now", lambda: 1_000)

    async def refused(address: str) -> str:
        given = {"token": "made.up", "password": PASSWORD}
        return await Window(team.app, address=f"[{address}]").refused("POST", "/v1/console/invitation", given)

    tries = BY_ADDRESS.burst * min(NETWORK_FACTORS)
    reasons = [await refused(f"2001:db8:7:{n:x}::1") for n in range(tries + 1)]
    assert reasons == ["invitation_not_found"] * tries + ["rate_limited"]
    assert await refused("2001:db8:7:100::1") == "invitation_not_found"


async def test_no_password_is_hashed_for_an_invitation_that_is_not_open(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(passwords.Passwords, "hash")
    given = {"token": "made.up", "password": PASSWORD}
    assert await Window(team.app).refused("POST", "/v1/console/invitation", given) == "invitation_not_found"


async def test_a_password_that_changes_while_it_is_verified_is_refused(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    invited, first = await team.invited("viewer")
    path = "/v1/console/invitation"
    await Window(team.app).json("POST", path, {"token": first, "password": PASSWORD})
    _, second = await team.invited("viewer", invited["email"])
    verify = passwords.Passwords.is_right

    async def is_right(self: passwords.Passwords, known: str | None, password: str) -> bool:
        right = await verify(self, known, password)
        await Window(team.app).json("POST", path, {"token": second, "password": f"{PASSWORD}, new"})
        return right

    monkeypatch.setattr(passwords.Passwords, "is_right", is_right)
    given = {"email": invited["email"], "password": PASSWORD}
    assert await Window(team.app).refused("POST", "/v1/console/password", given) == "sign_in_refused"


async def test_another_sites_page_cannot_sign_its_visitor_in(team: Team) -> None:
    invited, token = await team.invited("viewer")
    for site in ("cross-site", "same-site"):
        window = Window(team.app, headers={"sec-fetch-site": site})
        given = {"token": token, "password": PASSWORD}
        assert await window.refused("POST", "/v1/console/invitation", given) == "forbidden"
        given = {"email": invited["email"], "password": PASSWORD}
        assert await window.refused("POST", "/v1/console/password", given) == "forbidden"


# --- by OIDC


async def browse(window: Window) -> str:
    """Sign in at the issuer as its next claims say; returns where the browser ends up."""
    begun = dict((await window.ask("GET", "/v1/console/oidc")).headers)
    async with httpx.AsyncClient() as client:
        back = (await client.get(begun["location"])).headers["location"]
    return dict((await window.ask("GET", back.removeprefix("http://127.0.0.1:8000"))).headers)["location"]


async def test_an_invited_address_signs_in_by_oidc_and_is_known_by_its_subject_from_then_on(team: Team) -> None:
    email = f"{uuid4().hex}@example.com"
    await team.invited("finance", email)
    team.issuer.claims = {"sub": "u-oidc", "email": email}
    window = Window(team.app)
    assert await browse(window) == "/console"
    assert (await window.json("GET", "/v1/console/session"))["role"] == "finance"
    # The address now belongs to somebody else there: not to the operator.
    team.issuer.claims = {"sub": "u-other", "email": email}
    assert await browse(Window(team.app)) == "/console#/sign-in/not_invited"
    team.issuer.claims = {"sub": "u-oidc", "email": "renamed@example.com"}
    assert await browse(Window(team.app)) == "/console"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"email": "nobody@example.com"}, "not_invited"),
        ({"email_verified": False}, "not_invited"),
        ({"nonce": "of another sign-in"}, "identity_refused"),
        ({"aud": "another client"}, "identity_refused"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "identity_refused"),
        ({"iss": "https://evil.example"}, "identity_refused"),
        ({"exp": 1}, "identity_refused"),
    ],
)
async def test_an_identity_that_is_not_for_us_is_refused(team: Team, claims: dict[str, Any], reason: str) -> None:
    email = f"{uuid4().hex}@example.com"
    await team.invited("admin", email)
    team.issuer.claims = {"sub": uuid4().hex, "email": email} | claims
    window = Window(team.app)
    assert await browse(window) == f"/console#/sign-in/{reason}"
    assert await window.refused("GET", "/v1/console/session") == "unauthorized"


async def test_a_token_signed_with_another_key_is_refused(team: Team) -> None:
    team.issuer.claims = {}
    team.issuer.published = ECKey.generate_key("P-256", {"kid": "k1"})
    assert await browse(Window(team.app)) == "/console#/sign-in/issuer_unavailable"
    team.issuer.published = team.issuer.key


async def test_an_answer_of_the_issuer_counts_only_in_the_window_that_asked(team: Team) -> None:
    email = f"{uuid4().hex}@example.com"
    await team.invited("viewer", email)
    team.issuer.claims = {"sub": uuid4().hex, "email": email}
    attacker, victim = Window(team.app), Window(team.app)
    begun = dict((await attacker.ask("GET", "/v1/console/oidc")).headers)
    async with httpx.AsyncClient() as client:
        back = (await client.get(begun["location"])).headers["location"]
    path = back.removeprefix("http://127.0.0.1:8000")
    refused = "/console#/sign-in/sign_in_expired"
    assert dict((await victim.ask("GET", path)).headers)["location"] == refused
    await victim.ask("GET", "/v1/console/oidc")
    assert dict((await victim.ask("GET", path)).headers)["location"] == refused


async def test_an_invitation_that_expired_is_not_linked_to_an_identity(team: Team) -> None:
    invited, _ = await team.invited("viewer")
    await team.execute(_change(invited["operator_id"], invitation_expires_at=1))
    team.issuer.claims = {"sub": uuid4().hex, "email": invited["email"]}
    assert await browse(Window(team.app)) == "/console#/sign-in/not_invited"


async def test_an_operator_who_was_disabled_begins_anew_when_invited_again(team: Team) -> None:
    invited, token = await team.invited("viewer")
    await Window(team.app).json("POST", "/v1/console/invitation", {"token": token, "password": PASSWORD})
    team.issuer.claims = {"sub": uuid4().hex, "email": invited["email"]}
    assert await browse(Window(team.app)) == "/console"
    await team.admin.json("POST", f"/v1/ops/operators/{invited['operator_id']}/disable")
    await team.invited("viewer", invited["email"])
    given = {"email": invited["email"], "password": PASSWORD}
    assert await Window(team.app).refused("POST", "/v1/console/password", given) == "sign_in_refused"
    team.issuer.claims |= {"email": "renamed@example.com"}
    assert await browse(Window(team.app)) == "/console#/sign-in/not_invited"


def test_a_pending_sign_in_that_a_plain_connection_may_have_planted_does_not_count_with_tls() -> None:
    planted = {"cookie": f"{PLAIN_PENDING}=planted"}.get
    assert pending_in(planted, is_tls=False) == "planted"
    assert pending_in(planted, is_tls=True) is None
    own = {"cookie": f"{PLAIN_PENDING}=planted; {PENDING}=own"}.get
    assert pending_in(own, is_tls=True) == "own"


# --- roles and sessions


@pytest.mark.parametrize("role", Role)
async def test_a_role_may_do_what_its_scopes_allow(team: Team, role: Role) -> None:
    window = await team.operator(role.value)
    assert (await window.json("GET", "/v1/console/session"))["scopes"] == sorted(SCOPES_OF_ROLE[role])
    sale_id = await team.sale()
    paused = await window.ask("POST", f"/v1/sales/{sale_id}/pause")
    assert paused.status == (200 if role in (Role.SELLER, Role.ADMIN) else 403)
    wallet = await window.ask(
        "POST", "/v1/wallets/b/credit", {"amount": 1, "currency": "EUR", "idempotency_key": uuid4().hex}
    )
    assert wallet.status == (200 if role in (Role.FINANCE, Role.ADMIN) else 403)
    listed = await window.ask("GET", "/v1/ops/operators")
    assert listed.status == (200 if role is Role.ADMIN else 403)


async def test_a_disabled_operator_is_out_at_once_with_the_keys_they_made(team: Team) -> None:
    window = await team.operator("admin")
    made = await window.json("POST", "/v1/ops/keys", {"name": "mine", "scopes": ["read"]}, 201)
    key = Window(team.app, made["key"])
    await key.json("GET", "/v1/sales")
    operator_id = (await window.json("GET", "/v1/console/session"))["operator_id"]
    disabled = await team.admin.json("POST", f"/v1/ops/operators/{operator_id}/disable")
    assert disabled["disabled_at"]
    assert await window.refused("GET", "/v1/sales") == "unauthorized"
    assert await key.refused("GET", "/v1/sales") == "unauthorized"
    given = {"email": disabled["email"], "password": PASSWORD}
    assert await Window(team.app).refused("POST", "/v1/console/password", given) == "sign_in_refused"


async def test_a_lesser_role_takes_the_keys_along_that_may_do_more(team: Team) -> None:
    window = await team.operator("admin")
    keys = list[Window]()
    for scopes in (["read"], ["read", "money"]):
        made = await window.json("POST", "/v1/ops/keys", {"name": "mine", "scopes": scopes}, 201)
        keys.append(Window(team.app, made["key"]))
    operator_id = (await window.json("GET", "/v1/console/session"))["operator_id"]
    known = (await team.admin.json("GET", "/v1/ops/operators"))["data"]
    [email] = [one["email"] for one in known if one["operator_id"] == operator_id]
    await team.invited("viewer", email)
    await keys[0].json("GET", "/v1/sales")
    assert await keys[1].refused("GET", "/v1/sales") == "unauthorized"


async def test_a_session_that_ended_while_its_request_arrived_makes_no_key(team: Team) -> None:
    invited, _ = await team.invited("admin")
    request = Request("POST", "/v1/ops/keys", "", NoConnection([]), "req-1")
    request.caller = Caller(scopes=EVERY_SCOPE, session_id="ended", operator_id=invited["operator_id"])
    with pytest.raises(Problem) as refused:
        await KeyEndpoints(team.services).create(request, KeyIn("mine", [Scope.ADMIN]))
    assert refused.value.reason == "unauthorized"


async def test_operators_see_and_end_their_own_sessions_and_admins_everybodys(team: Team) -> None:
    window = await team.operator("support")
    [own] = (await window.json("GET", "/v1/ops/sessions"))["data"]
    assert (own["is_current"], own["method"]) == (True, "invitation")
    other = await team.operator("viewer")
    [others] = (await other.json("GET", "/v1/ops/sessions"))["data"]
    path = f"/v1/ops/sessions/{others['session_id']}"
    assert await window.refused("DELETE", path) == "session_not_found"
    everybodys = {one["session_id"] for one in (await team.admin.json("GET", "/v1/ops/sessions"))["data"]}
    assert {own["session_id"], others["session_id"]} <= everybodys
    await team.admin.json("DELETE", path, status=204)
    assert await other.refused("GET", "/v1/sales") == "unauthorized"


async def test_nobody_gives_a_role_that_may_do_more_than_themselves(team: Team) -> None:
    made = await team.admin.json("POST", "/v1/ops/keys", {"name": "hr", "scopes": ["admin", "read"]}, 201)
    hr = Window(team.app, made["key"])
    given = {"email": f"{uuid4().hex}@example.com", "name": "Eve", "role": "finance"}
    assert await hr.refused("POST", "/v1/ops/operators", given) == "forbidden"
    await hr.json("POST", "/v1/ops/operators", given | {"role": "viewer"}, 201)
    invited, _ = await team.invited("admin")
    assert await hr.refused("POST", "/v1/ops/operators", given | {"email": invited["email"], "role": "viewer"})
    assert await hr.refused("POST", f"/v1/ops/operators/{invited['operator_id']}/disable") == "forbidden"


# --- the record


async def test_every_action_is_on_record_with_the_operators_name_before_and_after(team: Team) -> None:
    sale_id, window = await team.sale(), await team.operator("seller")
    await window.json("POST", f"/v1/sales/{sale_id}/pause")
    await window.json("PATCH", f"/v1/sales/{sale_id}", {"name": "Lamp, brass"})
    renamed, paused = await team.actions(f"sale:{sale_id}")
    assert (paused["action"], paused["operator"], paused["status"]) == ("pause_sale", "Ada seller", 200)
    assert (paused["before"]["sales"]["paused"], paused["after"]["sales"]["paused"]) == (False, True)
    assert renamed["request"] == {"name": "Lamp, brass"}
    assert (renamed["before"]["sales"]["name"], renamed["after"]["sales"]["name"]) == ("Lamp", "Lamp, brass")


async def test_a_refused_action_and_the_admin_key_are_on_record_too(team: Team) -> None:
    missing = f"sale-{uuid4().hex[:8]}"
    assert await team.admin.refused("POST", f"/v1/sales/{missing}/close") == "sale_not_found"
    [refused] = await team.actions(f"sale:{missing}")
    assert (refused["operator"], refused["status"], refused["reason"]) == ("the admin key", 404, "sale_not_found")


async def test_the_record_has_no_secret_and_no_buyer(team: Team) -> None:
    window, buyer = await team.operator("admin"), f"buyer-{uuid4().hex}"
    credit = {"amount": 1, "currency": "EUR", "idempotency_key": uuid4().hex}
    await window.json("POST", f"/v1/wallets/{buyer}/credit", credit)
    made = await window.json("POST", "/v1/ops/keys", {"name": "mine", "scopes": ["read"]}, 201)
    hook = {"url": "https://example.com/hook", "events": ["*"]}
    secret = (await window.json("POST", "/v1/webhooks", hook, 201))["secret"]
    text = json.dumps((await team.admin.json("GET", "/v1/ops/actions?limit=20"))["data"])
    assert "credit_wallet" in text
    for hidden in (buyer, made["key"].rpartition("_")[2], secret, PASSWORD, "hash"):
        assert hidden not in text


async def test_the_reason_of_a_refund_is_text_and_stays_out_of_the_record(team: Team) -> None:
    order_id, refund_id, said = f"ord_{uuid4().hex}", f"rfd_{uuid4().hex}", f"moved to {uuid4().hex}"
    path = f"/v1/orders/{order_id}/refund"
    assert (await team.admin.ask("POST", path, {"reason": "a\x00b"}, key="k")).status == 422
    assert (await team.admin.ask("POST", path, {"reason": said, "restock": True}, key="k")).status == 404
    [refused] = await team.actions(f"order:{order_id}")
    assert refused["request"] == {"restock": True}
    row = {"refund_id": refund_id, "payment_key": "p", "sku_id": "s", "amount": 1, "currency": "EUR", "note": said}
    row |= {"cause": "requested", "due_at": 0, "created_at": 0, "state": "parked"}
    await team.execute(insert(refunds).values(row))
    await team.admin.ask("POST", f"/v1/ops/parked/refund:{refund_id}/drop")
    [dropped] = await team.actions(f"refund:{refund_id}")
    assert dropped["before"]["refunds"]["refund_id"] == refund_id
    assert said not in json.dumps(dropped)


async def test_nothing_on_record_can_be_changed_or_deleted(team: Team) -> None:
    await team.sale()
    for statement in (update(operator_actions).values(operator="Eve"), delete(operator_actions)):
        with pytest.raises((DatabaseError, EngineError)):
            await team.execute(statement)


def _change(operator_id: str, **values: object) -> Executable:
    return update(operators).where(operators.c.operator_id == operator_id).values(**values)


async def test_the_record_is_read_page_by_page(team: Team) -> None:
    subject = f"sale:{await team.sale()}"
    sale_id = subject.partition(":")[2]
    for name in ("One", "Two"):
        await team.admin.json("PATCH", f"/v1/sales/{sale_id}", {"name": name})
    every = [action["action_id"] for action in await team.actions(subject)]
    path = f"/v1/ops/actions?subject={subject}&limit=1"
    read, page = [], await team.admin.json("GET", path)
    while page["has_more"]:
        read += [action["action_id"] for action in page["data"]]
        page = await team.admin.json("GET", f"{path}&starting_after={read[-1]}")
    assert (read + [action["action_id"] for action in page["data"]], len(every) > 1) == (every, True)
