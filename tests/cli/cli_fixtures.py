"""What the tests of the command line share, as a plugin: mypy knows one module by the name of `conftest`."""

from pathlib import Path

import pytest
from cli_running import Here


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(tmp_path, monkeypatch, capsys)
