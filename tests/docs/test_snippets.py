"""What the tutorial tells people to type works, on a real server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from http_serving import SERVICE_KEY, Server, started

from holdfast.client import Client

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "five-minutes.md"
_BLOCK = re.compile(r"(<!-- not run -->\n)?^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMANDS = {"sh": ("bash", "-euc"), "python": (sys.executable, "-c")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:  # type: ignore[misc]
    with started(tmp_path_factory.mktemp("tutorial")) as running:
        yield running


def test_the_five_minutes_work_as_they_are_written(server: Server) -> None:
    blocks = [(kind, text) for skipped, kind, text in _BLOCK.findall(TUTORIAL.read_text()) if not skipped]
    assert [kind for kind, _ in blocks] == ["sh", "python", "sh"]
    said = [_run(kind, text, server) for kind, text in blocks]
    assert '"total_units":2' in said[0]
    assert "Bo gets none" in said[1]
    assert '"sold":2' in said[2]
    with Client(server.url, key=SERVICE_KEY) as client:
        assert client.available("poster").available == 0


def _run(kind: str, text: str, server: Server) -> str:
    environment = os.environ | {"URL": server.url, "KEY": SERVICE_KEY}
    ran = subprocess.run(
        [*_COMMANDS[kind], text], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
