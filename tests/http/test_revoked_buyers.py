"""Revoked buyers and tokens: refused by every process, until the revocation expires or is lifted."""

import asyncio
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx
import pytest
from http_calling import body_of, eventually, problem_of
from http_serving import Server, on_one_engine
from http_tokens import buyer_token

from holdfast.access.identity import Caller
from holdfast.access.revoked_buyers import RevokedBuyers
from holdfast.ledger.access.revocations import (
    Revocation,
    RevocationKind,
    lift,
    prune_revocations,
    revocations,
    revoke,
)
from holdfast.ledger.engine.database import Database

pytest_plugins = ("http_fixtures",)

REVOCATIONS = "/v1/ops/revocations"


def someone() -> str:
    return f"buyer-{uuid4().hex[:12]}"


def revoke_by(client: httpx.Client, kind: str, id_: str, **given: Any) -> dict[str, Any]:
    return body_of(client.put(f"{REVOCATIONS}/{kind}/{id_}", json=given))


def test_a_revoked_buyer_is_refused_at_the_next_request_and_nobody_else_is(server: Server) -> None:
    ada, bob = someone(), someone()
    with server.connect(buyer_token(ada)) as one, server.connect(buyer_token(bob)) as other:
        for client in (one, other):
            body_of(client.get("/v1/reservations"))
        made = revoke_by(server.client, "buyers", ada, reason="account stolen")
        assert (made["kind"], made["id"], made["reason"]) == ("buyer", ada, "account stolen")
        problem = problem_of(one.get("/v1/reservations"), 401, "unauthorized")
        assert "revoked" in problem["detail"]
        body_of(other.get("/v1/reservations"))
        with server.connect(buyer_token(ada, jti="signed later")) as later:
            problem_of(later.get("/v1/reservations"), 401, "unauthorized")
        assert server.client.delete(f"{REVOCATIONS}/buyers/{ada}").status_code == 204
        body_of(one.get("/v1/reservations"))


def test_one_revoked_token_leaves_the_others_of_its_buyer_valid(server: Server) -> None:
    ada, jti = someone(), uuid4().hex
    with server.connect(buyer_token(ada, jti=jti)) as stolen, server.connect(buyer_token(ada, jti="own")) as own:
        body_of(stolen.get("/v1/reservations"))
        revoke_by(server.client, "tokens", jti)
        problem_of(stolen.get("/v1/reservations"), 401, "unauthorized")
        body_of(own.get("/v1/reservations"))
        assert server.client.delete(f"{REVOCATIONS}/tokens/{jti}").status_code == 204
        body_of(stolen.get("/v1/reservations"))


def test_what_another_process_revokes_is_refused_within_moments(server: Server) -> None:
    """The command line writes it to the ledger, as another server would."""
    ada = someone()
    with server.connect(buyer_token(ada)) as client:
        body_of(client.get("/v1/reservations"))
        made = server.command("buyers", "revoke", ada, "--days", "2", "--reason", "stolen")
        assert (made["id"], made["reason"], made["revoked_by"]) == (ada, "stolen", "the command line")
        eventually(lambda: client.get("/v1/reservations").status_code == 401)
        assert ada in [one["id"] for one in server.command("buyers", "revoked")["data"]]
        assert server.command("buyers", "restore", ada) == {"kind": "buyer", "id": ada, "revoked": False}
        eventually(lambda: client.get("/v1/reservations").status_code == 200)


@on_one_engine
def test_what_operators_revoke_is_listed_and_on_record_without_the_buyers_id(server: Server) -> None:
    ada = someone()
    revoke_by(server.client, "buyers", ada, reason="chargebacks")
    [listed] = [one for one in body_of(server.client.get(REVOCATIONS))["data"] if one["id"] == ada]
    assert (listed["kind"], listed["revoked_by"]) == ("buyer", "the admin key")
    actions = body_of(server.client.get("/v1/ops/actions"))["data"]
    [action] = [one for one in actions if one["subject"] == f"buyer:{sha256(ada.encode()).hexdigest()[:16]}"]
    assert (action["action"], action["operator"], action["status"]) == ("revoke_buyer", "the admin key", 200)
    assert ada not in str(actions)
    assert "chargebacks" not in str(actions)


@on_one_engine
def test_only_the_scope_operate_revokes_and_only_into_the_future(server: Server) -> None:
    path = f"{REVOCATIONS}/buyers/{someone()}"
    key = server.command("keys", "create", "--name", "seller", "--scope", "sales")
    with server.connect(key["key"]) as seller, server.connect(buyer_token(someone())) as buyer:
        for client in (seller, buyer):
            problem_of(client.put(path, json={}), 403, "forbidden")
    problem_of(server.client.put(path, json={"expires_at": "2020-01-01T00:00:00Z"}), 422, "invalid_request")


# --- the list in memory


def revocation(kind: RevocationKind, id_: str, at: int, expires_at: int) -> Revocation:
    return Revocation(kind, id_, at, expires_at, None, "test")


async def test_the_list_follows_every_change_and_expiry(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    now = await database.read(database.now_ms)
    revoked, ada, bob = RevokedBuyers(database), Caller(buyer_id="ada"), Caller(buyer_id="bob", token_id="t1")

    async def both() -> tuple[bool, bool]:
        await revoked.refresh()
        return revoked.includes(ada), revoked.includes(bob)

    assert await both() == (False, False)
    await database.write(lambda c: revoke(c, revocation(RevocationKind.BUYER, "ada", now, now + 60_000)))
    assert await both() == (True, False)
    # In the same millisecond, and as many as before.
    await database.write(lambda c: lift(c, RevocationKind.BUYER, "ada"))
    await database.write(lambda c: revoke(c, revocation(RevocationKind.TOKEN, "t1", now, now + 90_000)))
    assert await both() == (False, True)
    monkeypatch.setattr(database, "now_ms", lambda _: now + 90_000)
    assert await both() == (False, False)
    assert await database.read(lambda c: revocations(c, now + 90_000, limit=9)) == []
    assert await database.write(lambda c: prune_revocations(c, now + 90_001, limit=9)) == 1


async def test_an_unchanged_list_is_not_read_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    now = await database.read(database.now_ms)
    await database.write(lambda c: revoke(c, revocation(RevocationKind.BUYER, "ada", now, now + 3_600_000)))
    revoked = RevokedBuyers(database)
    await revoked.refresh()
    monkeypatch.setattr("holdfast.access.revoked_buyers.revoked_ids", None)
    await revoked.refresh()
    assert revoked.includes(Caller(buyer_id="ada"))


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_slow_read_from_before_a_revocation_does_not_replace_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that takes a revocation refuses the buyer from then on, whatever it was reading meanwhile."""
    now = await database.read(database.now_ms)
    revoked, read, has_read, may_return = RevokedBuyers(database), database.read, asyncio.Event(), asyncio.Event()

    async def slow(work: Any) -> Any:
        found = await read(work)
        has_read.set()
        await may_return.wait()
        return found

    monkeypatch.setattr(database, "read", slow)
    by_itself = asyncio.create_task(revoked.refresh())
    await has_read.wait()
    monkeypatch.setattr(database, "read", read)
    await database.write(lambda c: revoke(c, revocation(RevocationKind.BUYER, "ada", now, now + 60_000)))
    after_it = asyncio.create_task(revoked.refresh())
    await asyncio.wait([after_it], timeout=0.2)
    may_return.set()
    await asyncio.gather(by_itself, after_it)
    assert revoked.includes(Caller(buyer_id="ada"))
