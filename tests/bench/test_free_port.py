"""Ports for servers that are started, killed and restarted on the same port."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from holdfast.lab.load.engines import free_port


def test_a_free_port_is_never_an_ephemeral_one() -> None:
    ports = [free_port() for _ in range(200)]
    assert max(ports) < 16_000
    assert len(set(ports)) == len(ports)


def test_a_port_in_use_is_skipped() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port + 1)):
        assert free_port() != port + 1


def test_two_processes_are_given_different_ports_wherever_their_temporary_files_are(tmp_path: Path) -> None:
    ours = {free_port() for _ in range(100)}
    program = f"""
import random
from holdfast.lab.load.engines import free_port
random.sample = lambda blocks, _: sorted(blocks, key=lambda block: {min(ours)} not in block)
print(*[free_port() for _ in range(500)])
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    theirs = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert not ours & set(map(int, theirs.split()))
