"""Ports for servers that are started, killed and started again where they were."""

import socket

from holdfast.bench.engines import free_port


def test_a_free_port_is_none_that_an_outgoing_connection_may_be_given() -> None:
    ports = [free_port() for _ in range(200)]
    assert max(ports) < 16_000
    assert len(set(ports)) == len(ports)


def test_a_port_that_is_taken_is_passed_over() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port + 1)):
        assert free_port() != port + 1
