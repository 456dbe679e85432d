"""The payment sandbox as a service: its records, its faults and bad input."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sandbox_process import SandboxProcess, running_sandbox
from stages import new_charge

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.lab.sandbox.ledger import SandboxLedger
from holdfast.lab.sandbox.store import Store
from holdfast.payments.port import Charge, PaymentState
from holdfast.payments.sandbox.client import SandboxProvider

pytest_plugins = ("payment_fixtures",)

CHARGE = {"key": "k", "amount": 100, "currency": "EUR"}


@pytest.fixture
async def client(sandbox: SandboxProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with sandbox.client() as client:
        yield client


@pytest.fixture
async def faulty(sandbox: SandboxProcess) -> AsyncIterator[SandboxProcess]:
    """A sandbox whose faults a test may set; they are reset afterwards."""
    yield sandbox
    await sandbox.set_faults()


async def outcomes(provider: SandboxProvider, keys: list[str]) -> dict[str, str]:
    """The outcome of the first attempt of each charge."""

    async def attempt(key: str) -> str:
        try:
            return str((await provider.authorise(Charge(key, 100, "EUR", "b", "r", "s"))).state)
        except (OutcomeUnknown, Unavailable) as exc:
            return type(exc).__name__

    return dict(zip(keys, await asyncio.gather(*map(attempt, keys)), strict=True))


@pytest.mark.slow
async def test_every_answer_survives_a_kill(tmp_path: Path) -> None:
    sandbox = SandboxProcess(tmp_path, "--data", "books.db")
    provider = SandboxProvider(sandbox.url, 20.0)
    answered: list[str] = []

    async def buy() -> None:
        while True:
            payment = await provider.capture(await provider.authorise(new_charge(None)))
            answered.append(payment.key)

    try:
        await sandbox.start()
        buyers = [asyncio.create_task(buy()) for _ in range(8)]
        async with asyncio.timeout(60.0):
            while len(answered) < 200:  # noqa: ASYNC110 - the buyers raise no event
                await asyncio.sleep(0.01)
        sandbox.kill()
        await asyncio.gather(*buyers, return_exceptions=True)
        await sandbox.start()
        captures = {entry["key"]: entry["captures"] for entry in await sandbox.books(limit=77)}
        assert [key for key in answered if captures.get(key) != 1] == []
        again = await provider.look_up(answered[0])
        assert again is not None
        assert again.state is PaymentState.CAPTURED
    finally:
        await provider.close()
        sandbox.kill()


@pytest.mark.slow
async def test_two_sandboxes_never_share_a_file(tmp_path: Path) -> None:
    async with running_sandbox(tmp_path, "--data", "books.db"):
        second = SandboxProcess(tmp_path, "--data", "books.db")
        with pytest.raises(AssertionError, match=r"books\.db cannot be used"):
            await second.start()


async def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "books.db").write_text("Dear diary, " * 100)
    second = SandboxProcess(tmp_path, "--data", "books.db")
    with pytest.raises(AssertionError, match=r"books\.db cannot be used"):
        await second.start()


def test_nobody_else_can_read_what_is_stored(tmp_path: Path) -> None:
    store = Store(tmp_path / "books.db")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    store.close()
    assert modes
    assert set(modes.values()) == {0o600}


@pytest.mark.slow
async def test_ten_thousand_payments_are_paged(tmp_path: Path) -> None:
    store = Store(tmp_path / "books.db")
    books = SandboxLedger(store, lambda _: None)
    for number in range(10_200):
        books.authorise(Charge(f"k{number}", 100, "EUR", "b", "r", "s"))
    store.close()
    async with running_sandbox(tmp_path, "--data", "books.db") as sandbox:
        keys = [entry["key"] for entry in await sandbox.books(limit=3000)]
    assert keys == [f"k{number}" for number in range(10_200)]


@pytest.mark.slow
async def test_the_same_seed_fails_the_same_keys_in_any_order(tmp_path: Path, seed: int) -> None:
    keys = [f"key-{number}" for number in range(100)]
    seen = []
    for order in (keys, keys[::-1]):
        async with running_sandbox(tmp_path) as sandbox:
            await sandbox.set_faults(seed=seed, decline=0.2, lost_reply=0.1, error=0.1)
            provider = SandboxProvider(sandbox.url, 20.0)
            seen.append(await outcomes(provider, order))
            await provider.close()
    assert seen[0] == seen[1]
    counts = {kind: list(seen[0].values()).count(kind) for kind in ("declined", "OutcomeUnknown", "authorised")}
    assert 3 < counts["declined"] < 40
    assert 3 < counts["OutcomeUnknown"] < 45
    assert sum(counts.values()) == len(keys)


async def test_retries_get_through_faults_in_the_end(faulty: SandboxProcess, seed: int) -> None:
    await faulty.set_faults(seed=seed, lost_reply=0.4, error=0.4)
    provider = SandboxProvider(faulty.url, 20.0)
    charge = new_charge(None)
    states: list[PaymentState] = []
    for _ in range(100):
        try:
            states.append((await provider.authorise(charge)).state)
            break
        except OutcomeUnknown:
            continue
    await provider.close()
    assert states == [PaymentState.AUTHORISED]


async def test_a_silent_lost_reply_is_a_timeout_and_the_charge_is_there(faulty: SandboxProcess) -> None:
    await faulty.set_faults(lost_reply=1, lost_reply_silent=True)
    impatient, provider = SandboxProvider(faulty.url, 1.0), SandboxProvider(faulty.url, 20.0)
    charge = new_charge(None)
    with pytest.raises(OutcomeUnknown, match="Timeout"):
        await impatient.authorise(charge)
    await impatient.close()
    await faulty.set_faults()
    found = await provider.look_up(charge.key)
    await provider.close()
    assert found is not None
    assert found.state is PaymentState.AUTHORISED


async def test_a_sandbox_that_flaps_is_unavailable_then_back_then_gone_again(faulty: SandboxProcess) -> None:
    provider = SandboxProvider(faulty.url, 20.0)
    await faulty.set_faults(down_ms=500, up_ms=500)
    seen: list[bool] = []
    async with asyncio.timeout(60.0):
        while seen[-3:] != [False, True, False]:
            is_up = next(iter((await outcomes(provider, [new_charge(None).key])).values())) == "authorised"
            if not seen or seen[-1] != is_up:
                seen.append(is_up)
            await asyncio.sleep(0.01)
    await provider.close()
    assert seen[0] is False
    assert seen[-3:] == [False, True, False]


async def test_nothing_happens_while_it_is_down(faulty: SandboxProcess) -> None:
    await faulty.set_faults(down_ms=1)
    provider = SandboxProvider(faulty.url, 20.0)
    charge = new_charge(None)
    with pytest.raises(Unavailable):
        await provider.authorise(charge)
    await faulty.set_faults()
    found = await provider.look_up(charge.key)
    await provider.close()
    assert found is None


async def test_a_pending_payment_is_authorised_in_the_end(faulty: SandboxProcess) -> None:
    await faulty.set_faults(pending=1, pending_ms=1_000)
    provider = SandboxProvider(faulty.url, 20.0)
    payment = await provider.authorise(new_charge(None))
    assert payment.state is PaymentState.PENDING
    async with asyncio.timeout(60.0):
        while payment.state is PaymentState.PENDING:
            found = await provider.look_up(payment.key)
            assert found is not None
            payment = found
    captured = await provider.capture(payment)
    await provider.close()
    assert captured.state is PaymentState.CAPTURED


async def test_a_payment_is_found_by_its_reference(client: httpx.AsyncClient) -> None:
    made = (await client.post("/authorise", json=CHARGE | {"key": new_charge(None).key})).json()
    assert (await client.get("/payments", params={"reference": made["reference"]})).json() == made


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/authorise", {"key": "", "amount": 1, "currency": "EUR"}, 422),
        ("POST", "/authorise", CHARGE | {"amount": 0}, 422),
        ("POST", "/authorise", CHARGE | {"amount": -5}, 422),
        ("POST", "/authorise", CHARGE | {"amount": 1.5}, 422),
        ("POST", "/authorise", CHARGE | {"amount": "100"}, 422),
        ("POST", "/authorise", CHARGE | {"amount": 2**70}, 422),
        ("POST", "/authorise", CHARGE | {"currency": "euro"}, 422),
        ("POST", "/authorise", CHARGE | {"more": 1}, 422),
        ("POST", "/authorise", [], 422),
        ("POST", "/authorise", {"key": "x" * 100_000}, 422),
        ("POST", "/capture", {"key": "never seen"}, 404),
        ("POST", "/refund", {"payment_key": "never seen", "key": "r", "amount": 1}, 404),
        ("PUT", "/faults", {"decline": 2}, 422),
        ("PUT", "/faults", {"declien": 1}, 422),
        ("GET", "/books?after=-1", None, 422),
        ("GET", "/books?limit=x", None, 422),
        ("GET", "/payments", None, 404),
        ("DELETE", "/books", None, 404),
    ],
)
async def test_bad_requests_are_refused_with_a_reason(
    client: httpx.AsyncClient, method: str, path: str, body: Any, status: int
) -> None:
    answer = await client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "detail", "payment"}


async def test_the_page_escapes_what_payments_contain(client: httpx.AsyncClient) -> None:
    key = f"<script>alert({new_charge(None).key!r})</script>"
    await client.post("/authorise", json=CHARGE | {"key": key, "method": "<img src=x onerror=alert(1)>"})
    page = (await client.get("/")).text
    assert "&lt;script&gt;alert(" in page
    assert "<script" not in page
    assert "<img" not in page


async def test_the_file_can_be_read_with_sqlite(tmp_path: Path) -> None:
    async with running_sandbox(tmp_path, "--data", "books.db") as sandbox, sandbox.client() as client:
        assert (await client.post("/authorise", json=CHARGE)).status_code == 200
    connection = sqlite3.connect(tmp_path / "books.db")
    rows = connection.execute("SELECT entry ->> 'key', entry ->> 'state' FROM entries").fetchall()
    connection.close()
    assert rows == [("k", "authorised")]
