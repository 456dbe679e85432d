"""Events as they happen: complete, in order, resumable, bounded, and no obstacle to stopping."""

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from time import monotonic
from typing import Any

import httpx
import pytest
from http_calling import problem_of
from http_sales import Buyer, Store, body_of, store_of
from http_serving import started
from http_sockets import request_bytes, wire_to
from http_tokens import buyer_token

pytest_plugins = ("http_fixtures",)

# A stream that nobody ends, ends after about a minute.
PATIENCE_S = 45.0
UVICORN = (sys.executable, "-m", "uvicorn", "--factory", "holdfast.http.asgi:create_app")


class Listener:
    """Reads a stream in a thread of its own."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._events: Queue[dict[str, Any] | None] = Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        event: dict[str, Any] = {}
        try:
            for line in self.response.iter_lines():
                name, _, value = line.partition(": ")
                if line == "" and "data" in event:
                    self._events.put(event)
                if line == "":
                    event = {}
                elif name:
                    event[name] = value
        except httpx.TransportError:
            pass
        self._events.put(None)

    def next(self) -> dict[str, Any]:
        event = self._get()
        assert event is not None, "the stream has ended"
        return event

    def _get(self) -> dict[str, Any] | None:
        try:
            return self._events.get(timeout=PATIENCE_S)
        except Empty:
            raise TimeoutError("nothing came, and the stream has not ended") from None

    def types(self, count: int) -> list[str]:
        return [str(self.next()["event"]) for _ in range(count)]

    def wait_for_end(self) -> None:
        assert self._get() is None


@contextmanager
def listening(buyer: Buyer, reservation_id: str, **headers: str) -> Iterator[Listener]:
    path = f"/v1/reservations/{reservation_id}/events"
    with buyer.client.stream("GET", path, headers=headers, timeout=httpx.Timeout(PATIENCE_S, read=100)) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        wire: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
        try:
            yield Listener(response)
        finally:
            # Closing alone would do nothing for as long as the listener's thread reads.
            with suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)


def test_a_stream_tells_what_happened_and_then_what_happens_until_it_ends(store: Store) -> None:
    store.open(payment="external")
    with store.buyer() as ada:
        reservation_id = body_of(ada.purchase(), 201)["reservation_id"]
        path = f"/v1/reservations/{reservation_id}"
        with listening(ada, reservation_id) as listener:
            first = listener.next()
            assert first["event"] == "reservation.created"
            told = json.loads(first["data"])
            assert (told["reservation_id"], told["type"]) == (reservation_id, "reservation.created")
            body_of(ada.client.post(f"{path}/extend", json={"ttl_seconds": 1_000}))
            second = listener.next()
            assert second["event"] == "reservation.extended"
            body_of(store.server.client.post(f"{path}/confirm"))
            assert listener.types(2) == ["reservation.confirmed", "order.confirmed"]
            listener.wait_for_end()
        again = ada.client.get(f"{path}/events", headers={"Last-Event-ID": second["id"]})
        assert again.text.count("event: ") == 2
        assert "reservation.created" not in again.text
        last = again.text.rpartition("id: ")[2].split("\n")[0]
        seen_all = ada.client.get(f"{path}/events", headers={"Last-Event-ID": last})
        assert (seen_all.status_code, seen_all.content) == (204, b"")


def test_a_stream_tells_of_an_expiry(store: Store) -> None:
    store.open(hold_seconds=1)
    with store.buyer() as ada, listening(ada, body_of(ada.purchase(), 201)["reservation_id"]) as listener:
        assert listener.types(2) == ["reservation.created", "reservation.expired"]
        listener.wait_for_end()


def test_a_stream_goes_on_where_it_was_left(store: Store) -> None:
    store.open()
    with store.buyer() as ada:
        reservation_id = body_of(ada.purchase(), 201)["reservation_id"]
        with listening(ada, reservation_id) as listener:
            seen = listener.next()["id"]
        ada.client.post(f"/v1/reservations/{reservation_id}/confirm")
        with listening(ada, reservation_id, **{"Last-Event-ID": seen}) as listener:
            assert listener.types(1) == ["reservation.settling"]


def test_nobody_listens_to_anothers_reservation(store: Store) -> None:
    store.open()
    path = f"/v1/reservations/{store.buy()['reservation_id']}/events"
    with store.buyer("bob") as bob:
        problem_of(bob.client.get(path), 404, "reservation_not_found")
        problem_of(bob.client.get("/v1/reservations/rsv_1/events"), 404, "reservation_not_found")
    with store.server.connect() as stranger:
        problem_of(stranger.get(path), 401, "unauthorized")


def test_an_owner_has_so_many_streams_and_gets_them_back(store: Store) -> None:
    store.open()
    with store.buyer(store.sale_id) as ada, ExitStack() as open_streams:
        reservation_id = body_of(ada.purchase(), 201)["reservation_id"]
        path = f"/v1/reservations/{reservation_id}/events"
        for _ in range(4):
            open_streams.enter_context(listening(ada, reservation_id)).next()
        problem_of(ada.client.get(path), 503, "busy")
        open_streams.pop_all().close()
        until = monotonic() + PATIENCE_S
        while True:
            with ada.client.stream("GET", path) as response:
                if response.status_code == 200:
                    break
            if monotonic() > until:
                raise TimeoutError


def test_a_burst_of_listeners_gets_no_more_streams_than_one_after_another(store: Store) -> None:
    store.open()
    buyer_id = f"burst-{store.sale_id}"
    reservation_id = store.buy(buyer_id)["reservation_id"]
    asking = request_bytes("GET", f"/v1/reservations/{reservation_id}/events", token=buyer_token(buyer_id))
    with ExitStack() as wires:
        asked = [wires.enter_context(wire_to(store.server)) for _ in range(40)]
        for wire in asked:
            wire.send(asking)
        told = [wire.read_answer().status for wire in asked]
    assert sorted(told) == [200] * 4 + [503] * 36


@pytest.mark.parametrize("command", [None, UVICORN])
def test_a_server_stops_at_once_though_somebody_listens(tmp_path: Path, command: tuple[str, ...] | None) -> None:
    more = {} if command is None else {"command": command}
    with started(tmp_path, **more) as server:  # type: ignore[arg-type]
        store = store_of(server)
        store.open()
        with store.buyer() as ada, listening(ada, body_of(ada.purchase(), 201)["reservation_id"]) as listener:
            assert listener.types(1) == ["reservation.created"]
            # A stream lasts for a minute: a server that waited for its end would not stop in time.
            assert server.stop() in (0, -15)
            listener.wait_for_end()
        assert "Traceback" not in server.log
