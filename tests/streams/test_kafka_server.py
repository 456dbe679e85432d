"""A server with Kafka: what it sells arrives there, and it sells without a broker too."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from joining import BUYER_SECRET, buyer_token
from kafka_world import PARTITIONS, reading
from processes import HoldfastProcess, ask, make_pool, serving

from holdfast.lab.load.engines import free_port
from holdfast.lab.load.kafka_broker import Broker, kafka_broker
from holdfast.ledger.events.stream_messages import EVENTS
from quiet_time import QuietTime

pytestmark = pytest.mark.slow


async def sell(client: httpx.AsyncClient, key: str, sku_id: str) -> str:
    reservation = (await ask(client, key, sku_id)).json()
    answer = await client.post(f"/v1/reservations/{reservation['reservation_id']}/confirm")
    assert answer.status_code == 200, answer.text
    return str(reservation["reservation_id"])


async def readiness(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/healthz/ready")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def until_check(client: httpx.AsyncClient, *, ok: bool) -> dict[str, Any]:
    """A role is found to fail by the heartbeats, which raise no event here."""
    async with asyncio.timeout(60):
        while (body := await readiness(client))["checks"]["kafka_relay"]["ok"] is not ok:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.1)
    return body


async def test_what_a_server_sells_arrives_with_the_counts_of_its_pool(tmp_path: Path, broker: Broker) -> None:
    url = f"{broker.url}?partitions={PARTITIONS}"
    async with reading(broker) as reader, serving(tmp_path / "data", kafka_url=url) as holdfast:
        async with holdfast.client() as client:
            await make_pool(client, 10, "lamp")
            sold = await sell(client, "k", "lamp")
        await reader.until(lambda: {"reservation.confirmed", "pool.updated"} <= {s.type for s in reader.of(EVENTS)})
        await reader.until(
            lambda: any(s.type == "pool.updated" and s.event["data"]["sold"] == 1 for s in reader.of(EVENTS))
        )
        printed = await asyncio.to_thread(holdfast.run_command, "doctor")
        assert await holdfast.stop() == 0
    assert "one broker" in printed.stdout or "1 broker" in printed.stdout, printed.stdout
    seen = reader.by_key(EVENTS)["lamp"]
    assert [each.type for each in seen if each.event["subject"] == sold] == [
        "reservation.created",
        "reservation.confirmed",
    ]


async def test_a_server_starts_and_sells_without_a_broker_and_says_so(tmp_path: Path) -> None:
    url = f"kafka://127.0.0.1:{free_port()}"
    async with serving(tmp_path / "data", kafka_url=url) as holdfast, holdfast.client() as client:
        await make_pool(client, 10)
        await sell(client, "k", "sku")
        body = await until_check(client, ok=False)
        assert (body["status"], body["checks"]["selling"]["ok"]) == ("degraded", True)
        lag = (await client.get("/v1/ops/lag")).json()["streams"]
        assert lag["items"] > 0
        shown = (await client.get("/metrics")).text
        assert f'holdfast_stream_lag_events{{stream="kafka"}} {lag["items"]}.0' in shown
        await sell(client, "l", "sku")
        await _says_what_is_wrong(holdfast)
        assert await holdfast.stop() == 0


async def _says_what_is_wrong(holdfast: HoldfastProcess) -> None:
    printed = await asyncio.to_thread(holdfast.run_command, "doctor")
    assert "no broker answers" in printed.stdout, printed.stdout


async def test_a_worker_settles_from_intents(tmp_path: Path, broker: Broker) -> None:
    settings = {"kafka_url": f"{broker.url}?partitions={PARTITIONS}", "settlement_source": "kafka"}
    async with serving(tmp_path / "data", buyer_secret=BUYER_SECRET, **settings) as holdfast:
        async with holdfast.client() as client:
            await open_sale(client)
            for number in range(10):
                await buy(client, f"buyer-{number}")
            async with asyncio.timeout(60):
                while (await settled(client)) < 10:  # noqa: ASYNC110 - written by the worker, which raises no event here
                    await asyncio.sleep(0.1)
            assert (await client.get("/healthz/ready")).json()["checks"]["kafka_settler"]["ok"]
            shown = (await client.get("/metrics")).text
        assert 'holdfast_intents_total{result="settled"}' in shown
        assert await holdfast.stop() == 0


async def open_sale(client: httpx.AsyncClient) -> None:
    sale = {
        "sale_id": "drop",
        "sku_id": "chair",
        "name": "Drop",
        "total_units": 100,
        "price": {"amount": 100, "currency": "EUR"},
        "starts_at": "2020-01-01T00:00:00Z",
        "checkout": "instant",
        "payment": "wallet",
        "per_buyer_limit": 1,
    }
    answer = await client.post("/v1/sales", json=sale)
    assert answer.status_code == 201, answer.text


async def buy(client: httpx.AsyncClient, buyer_id: str) -> None:
    money = {"amount": 100, "currency": "EUR", "idempotency_key": "k"}
    credited = await client.post(f"/v1/wallets/{buyer_id}/credit", json=money)
    assert credited.status_code == 200, credited.text
    headers = {"Authorization": f"Bearer {buyer_token(buyer_id)}", "Idempotency-Key": "k"}
    async with asyncio.timeout(30):
        while True:
            answer = await client.post("/v1/sales/drop/purchase", json={"quantity": 1}, headers=headers)
            if answer.status_code == 201:
                return
            assert answer.json()["reason"] in ("sale_not_open", "not_ready", "busy"), answer.text
            await asyncio.sleep(0.1)


async def settled(client: httpx.AsyncClient) -> int:
    answer = await client.get("/v1/inventory/chair/available")
    return int(answer.json()["sold"])


async def test_a_worker_stops_in_time_while_the_broker_is_frozen(tmp_path: Path) -> None:
    with kafka_broker() as own:
        settings = {"kafka_url": f"{own.url}?partitions={PARTITIONS}", "settlement_source": "kafka"}
        async with serving(tmp_path / "data", buyer_secret=BUYER_SECRET, **settings) as holdfast:
            async with holdfast.client() as client:
                await open_sale(client)
                for number in range(20):
                    await buy(client, f"buyer-{number}")
                    if number == 10:
                        await until_some_intents_are_settled(client)
                        own.freeze()
            try:
                quiet = QuietTime()
                assert await holdfast.stop() == 0
                assert quiet.seconds < 10
            finally:
                own.thaw()


async def until_some_intents_are_settled(client: httpx.AsyncClient) -> None:
    """The worker counts them, which raises no event here."""
    async with asyncio.timeout(60):
        while 'holdfast_intents_total{result="settled"}' not in (await client.get("/metrics")).text:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)
