"""Webhooks of providers: accepted only if signed and recent."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sandbox_process import running_sandbox
from standardwebhooks import Webhook
from stripe import WebhookSignature

from holdfast.payments.notice import Notice, NoticeRefused
from holdfast.payments.sandbox import webhook as sandbox_webhooks
from holdfast.payments.stripe import webhook as stripe_webhook

SECRET = "whsec_" + "c2VjcmV0" * 4
OTHER = "whsec_" + "b3RoZXIh" * 4
EVENT = {"id": "evt_1", "object": "event", "type": "payment_intent.succeeded"}
BODY = json.dumps(EVENT | {"data": {"object": {"id": "pi_1", "metadata": {"holdfast_key": "k"}}}})

Call = tuple[dict[str, str], bytes]


@asynccontextmanager
async def receiver(calls: "asyncio.Queue[Call]", failures: int = 0) -> AsyncIterator[str]:
    """A web server that stores what it receives, and fails the first few times."""
    left = failures

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
        body = await reader.readexactly(int(headers["content-length"]))
        left -= 1
        status = b"500 No" if left >= 0 else b"200 OK"
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        writer.close()
        if left < 0:
            calls.put_nowait((headers, body))

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    server.close()
    await server.wait_closed()


async def told(path: Path, method: str, *, count: int, failures: int = 0) -> list[Call]:
    """The webhooks of a charge that is authorised and captured."""
    calls: asyncio.Queue[Call] = asyncio.Queue()
    async with (
        receiver(calls, failures) as url,
        running_sandbox(path, "--webhook-url", url, payment_sandbox_webhook_secret=SECRET) as sandbox,
        sandbox.client() as client,
        asyncio.timeout(60.0),
    ):
        await client.post("/authorise", json={"key": "k", "amount": 1, "currency": "EUR", "method": method})
        await client.post("/capture", json={"key": "k"})
        return [await calls.get() for _ in range(count)]


async def test_the_sandbox_sends_a_signed_webhook_for_every_change(tmp_path: Path) -> None:
    calls = await told(tmp_path, "pm_card", count=2)
    notices = [sandbox_webhooks.read_webhook(SECRET, body, headers) for headers, body in calls]
    assert {(notice.kind, notice.key) for notice in notices} == {("payment.updated", "k")}
    assert {json.loads(body)["data"]["state"] for _, body in calls} == {"authorised", "captured"}
    assert len({notice.id for notice in notices}) == 2


async def test_a_duplicate_has_the_id_of_the_first(tmp_path: Path) -> None:
    calls = await told(tmp_path, "pm_duplicate_webhook", count=4)
    ids = [headers["webhook-id"] for headers, _ in calls]
    assert sorted(ids.count(one) for one in set(ids)) == [2, 2]


async def test_a_failed_webhook_is_sent_again(tmp_path: Path) -> None:
    assert len(await told(tmp_path, "pm_card", count=2, failures=2)) == 2


def sandbox_call(secret: str = SECRET, age_s: int = 0, body: bytes | None = None) -> Call:
    at = datetime.now(UTC) - timedelta(seconds=age_s)
    message = {"type": "payment.updated", "timestamp": "now", "data": {"key": "k", "state": "captured"}}
    body = json.dumps(message).encode() if body is None else body
    headers = {"webhook-id": "1", "webhook-timestamp": str(int(at.timestamp()))}
    return headers | {"webhook-signature": Webhook(secret).sign("1", at, body.decode())}, body


# Signed when the test runs: one that was signed when it was collected may be refused for its age alone.
NOT_THE_SANDBOX: dict[str, Callable[[], Call]] = {
    "forged": lambda: sandbox_call(secret=OTHER),
    "stale": lambda: sandbox_call(age_s=301),
    "early": lambda: sandbox_call(age_s=-310),
    "list": lambda: sandbox_call(body=b"[]"),
    "cut": lambda: sandbox_call(body=b"{"),
    "binary": lambda: (sandbox_call()[0], b"\xff"),
    "changed": lambda: (sandbox_call()[0], sandbox_call()[1] + b" "),
    "bare": lambda: ({}, sandbox_call()[1]),
    "no_mac": lambda: (sandbox_call()[0] | {"webhook-signature": "v1"}, sandbox_call()[1]),
    "not_base64": lambda: (sandbox_call()[0] | {"webhook-signature": "v1,é"}, sandbox_call()[1]),
    "no_time": lambda: (sandbox_call()[0] | {"webhook-timestamp": "soon"}, sandbox_call()[1]),
}


def test_a_signed_sandbox_webhook_is_accepted() -> None:
    headers, body = sandbox_call()
    assert sandbox_webhooks.read_webhook(SECRET, body, headers) == Notice("1", "payment.updated", "k")


@pytest.mark.parametrize("name", NOT_THE_SANDBOX)
def test_a_forged_sandbox_webhook_is_refused(name: str) -> None:
    headers, body = NOT_THE_SANDBOX[name]()
    with pytest.raises(NoticeRefused):
        sandbox_webhooks.read_webhook(SECRET, body, headers)


def signed(body: str, secret: str = SECRET, age_s: int = 0) -> str:
    return str(WebhookSignature.generate_signature_header(body, secret, int(time.time()) - age_s))


def test_a_signed_stripe_webhook_is_accepted() -> None:
    notice = stripe_webhook.read_webhook(SECRET, BODY.encode(), signed(BODY))
    assert notice == Notice("evt_1", "payment_intent.succeeded", "k")


def test_an_event_of_stripe_about_something_else_has_no_key() -> None:
    body = json.dumps(EVENT | {"data": {"object": {"id": "cus_1"}}})
    assert stripe_webhook.read_webhook(SECRET, body.encode(), signed(body)).key is None


NOT_STRIPE: dict[str, Callable[[], tuple[bytes, str | None]]] = {
    "forged": lambda: (BODY.encode(), signed(BODY, OTHER)),
    "stale": lambda: (BODY.encode(), signed(BODY, age_s=301)),
    "changed": lambda: (BODY.encode() + b" ", signed(BODY)),
    "unsigned": lambda: (BODY.encode(), None),
    "malformed_signature": lambda: (BODY.encode(), "t=now,v1=abc"),
    "binary": lambda: (b"\xff", signed(BODY)),
    "list": lambda: (b"[]", signed("[]")),
    "cut": lambda: (b"{", signed("{")),
}


@pytest.mark.parametrize("name", NOT_STRIPE)
def test_a_forged_stripe_webhook_is_refused(name: str) -> None:
    body, signature = NOT_STRIPE[name]()
    with pytest.raises(NoticeRefused):
        stripe_webhook.read_webhook(SECRET, body, signature)
