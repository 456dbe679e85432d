"""`holdfast bench` as people run it."""

import json
import subprocess
import sys
from typing import Any


def run(*arguments: str, timeout_s: float = 600) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "bench", *arguments, "--json"],
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "s left" in done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report
