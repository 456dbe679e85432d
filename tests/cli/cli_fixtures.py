"""Shared fixtures, as a plugin, because mypy accepts only one module named `conftest`."""

from pathlib import Path

import pytest
from cli_running import Here


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(tmp_path, monkeypatch, capsys)
