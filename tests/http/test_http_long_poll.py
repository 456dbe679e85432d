"""GET /v1/reservations/{id}?wait=: the answer comes when the reservation changes."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest
from http_calling import problem_of
from http_sales import Buyer, Store, body_of, store_of
from http_serving import Server, on_one_engine, started

from asking_inside import NoConnection
from holdfast.bootstrap.services import open_services
from holdfast.http.contract.message import Answer, Request
from holdfast.http.server.app import App
from holdfast.runtime.concurrency_limit import Priority
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(9) as pool:
        yield pool


def poll(buyer: Buyer, reservation_id: str, seconds: int) -> dict[str, Any]:
    return body_of(buyer.client.get(f"/v1/reservations/{reservation_id}", params={"wait": seconds}))


def test_a_waiting_client_is_answered_when_the_reservation_changes(store: Store, threads: ThreadPoolExecutor) -> None:
    store.open(payment="external")
    with store.buyer() as ada:
        held = body_of(ada.purchase(), 201)["reservation_id"]
        path, began = f"/v1/reservations/{held}", monotonic()
        waiting: Future[dict[str, Any]] = threads.submit(poll, ada, held, 30)
        # The first may be before the poll arrives.
        for ttl_seconds in range(600, 1_800):
            body_of(store.server.client.post(f"{path}/extend", json={"ttl_seconds": ttl_seconds}))
            if wait([waiting], 0.5).done:
                break
        assert waiting.result(0)["expires_at"] <= body_of(store.server.client.get(path))["expires_at"]
        waiting = threads.submit(poll, ada, held, 30)
        body_of(store.server.client.post(f"{path}/confirm"))
        assert waiting.result(60)["status"] == "confirmed"
        assert monotonic() - began < 30, "the answers came when the time was over"
        assert poll(ada, held, 30)["status"] == "confirmed"


def test_without_a_change_the_answer_comes_when_the_time_is_over(store: Store) -> None:
    store.open()
    with store.buyer() as ada:
        held, began = body_of(ada.purchase(), 201)["reservation_id"], monotonic()
        assert poll(ada, held, 1)["status"] == "active"
        assert 1 <= monotonic() - began < 20


@on_one_engine
@pytest.mark.parametrize("given", ["0", "31", "-1", "x", "1.5", ""])
def test_a_wait_is_from_one_to_thirty_seconds(store: Store, given: str) -> None:
    store.open()
    with store.buyer() as ada:
        held = body_of(ada.purchase(), 201)["reservation_id"]
        problem_of(ada.client.get(f"/v1/reservations/{held}", params={"wait": given}), 422, "invalid_request")


@on_one_engine
def test_beyond_a_few_waiting_requests_of_a_buyer_the_answer_comes_at_once(
    store: Store, threads: ThreadPoolExecutor
) -> None:
    store.open()
    with store.buyer() as ada:
        held = body_of(ada.purchase(), 201)["reservation_id"]
        waiting = [threads.submit(poll, ada, held, 30) for _ in range(9)]
        answered = next(as_completed(waiting, 25))
        assert answered.result()["status"] == "active"
        assert ada.client.delete(f"/v1/reservations/{held}").status_code == 204
        assert sorted(one.result(60)["status"] for one in waiting) == ["active"] + ["cancelled"] * 8


def test_a_server_stops_at_once_though_somebody_waits(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    with started(tmp_path) as server:
        stopped_in_time(server, threads)
        assert "Traceback" not in server.log


def stopped_in_time(server: Server, threads: ThreadPoolExecutor) -> None:
    store = store_of(server)
    store.open()
    with store.buyer() as ada:
        held = body_of(ada.purchase(), 201)["reservation_id"]
        waiting = threads.submit(poll, ada, held, 30)
        body_of(ada.client.get(f"/v1/reservations/{held}"))
        assert server.stop() in (0, -15)
        assert waiting.exception(30) is not None or waiting.result()["status"] == "active"


async def test_under_load_a_wait_is_kept_and_takes_no_place_though_event_streams_are_off(tmp_path: Path) -> None:
    async with open_services(load_settings(data=tmp_path), background=False) as services:
        app, key = App(services), f"Bearer {services.settings.service_key_text()}"

        async def ask(method: str, path: str, query: str = "", **given: object) -> Answer:
            body = msgspec.json.encode(given) if given else b""
            answer = await app.answer(Request(method, path, query, NoConnection([]), "id", key, body=body))
            assert answer is not None
            return answer

        await ask("PUT", "/v1/inventory/drop", total_units=1)
        held = await ask("POST", "/v1/inventory/drop/reserve", owner_id="ada", quantity=1)
        path = f"/v1/reservations/{msgspec.json.decode(held.body)['reservation_id']}"
        await app._shedder.refuse(Priority.READ)
        assert (await ask("GET", f"{path}/events")).status == 503
        waiting = await ask("GET", path, "wait=30")
        assert (waiting.status, app._limiter.in_flight) == (200, 0)
        assert (await ask("DELETE", path)).status == 204
        assert waiting.stream is not None
        assert msgspec.json.decode(b"".join([part async for part in waiting.stream]))["status"] == "cancelled"
        await app.finish()
