"""Ports for servers that are started, killed and restarted on the same port."""

import socket
import subprocess
import sys

from holdfast.lab.load.engines import free_port


def test_a_free_port_is_never_an_ephemeral_one() -> None:
    ports = [free_port() for _ in range(200)]
    assert max(ports) < 16_000
    assert len(set(ports)) == len(ports)


def test_a_port_in_use_is_skipped() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port + 1)):
        assert free_port() != port + 1


def test_two_processes_are_given_different_ports() -> None:
    ours = {free_port() for _ in range(100)}
    program = "from holdfast.lab.load.engines import free_port; print(*[free_port() for _ in range(100)])"
    theirs = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not ours & set(map(int, theirs.split()))
