"""A mail server that never finishes its greeting does not keep a server from stopping."""

import socket
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from http_rooms import person
from http_sales import body_of, store_of
from http_serving import started
from http_tokens import buyer_token


def _greet_for_ever(connection: socket.socket, is_over: Event) -> None:
    """Each byte renews the time limit of whoever reads."""
    with suppress(OSError):
        while not is_over.wait(0.5):
            connection.send(b"2")


@pytest.mark.slow
def test_a_server_stops_while_its_mail_server_is_still_greeting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mail_server:
        settings = {"SMTP_URL": f"smtp://127.0.0.1:{mail_server.getsockname()[1]}"}
        with started(tmp_path, settings=settings) as server:
            store, is_over = store_of(server), Event()
            store.open(total_units=5, room={"mode": "fifo", "rate_per_second": 5, "pass_seconds": 60})
            with server.connect(buyer_token("ada")) as client:
                body_of(client.put("/v1/me/contact", json={"email": "ada@example.com"}))
            with person(store, "ada") as ada:
                body_of(ada.join())
            mail_server.settimeout(30)
            connection, _ = mail_server.accept()
            with connection:
                greeting = Thread(target=_greet_for_ever, args=(connection, is_over))
                greeting.start()
                try:
                    assert server.stop() == 0
                finally:
                    is_over.set()
                    greeting.join()
