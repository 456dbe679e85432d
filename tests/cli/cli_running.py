"""The real command line in its own directory, with only the given settings.

`Cli` runs a process. `Here` calls the same entry point in this process, for the many cases where starting Python
would dominate the test.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from forking import HOLDFAST, run, start
from holdfast.cli import main

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        assert self.code in (0, 1), self.err
        return json.loads(self.out)

    @property
    def refusal(self) -> str:
        """The error as JSON, which is also on stderr."""
        message: str = json.loads(self.out)["error"]
        assert message in self.err
        return message

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True)
class Cli:
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, **settings: str) -> Ran:
        command = [*HOLDFAST, *arguments]
        ran = run(command, cwd=self.directory, env=self.environment(settings), timeout=TIMEOUT_S)
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def environment(self, settings: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        given = {f"HOLDFAST_{name}": value for name, value in (self.settings | settings).items()}
        return kept | {"COLUMNS": "80"} | self.variables | given

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [*HOLDFAST, *arguments],
            cwd=self.directory,
            env=self.environment({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Background jobs of a shell ignore Ctrl-C, and their children inherit that; a terminal does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def stop(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Send a signal; return the exit status and stderr."""
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, err


def run_all(calls: Sequence[tuple[Cli, Sequence[str]]]) -> list[Ran]:
    """Run several at once: a short command mostly waits for Python to start."""
    with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as threads:
        return list(threads.map(lambda call: call[0](*call[1]), calls))


def run_in_terminal(cli: Cli, *arguments: str) -> list[str]:
    """The output on a terminal of 80 columns, without colours."""
    ours, theirs = pty.openpty()
    start([*HOLDFAST, *arguments], cwd=cli.directory, env=cli.environment({}), stdout=theirs).wait(TIMEOUT_S)
    os.close(theirs)
    shown = b""
    with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
        while chunk := terminal.read(65536):
            shown += chunk
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


@dataclass(frozen=True)
class Here:
    directory: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, **settings: str) -> Ran:
        with self.monkeypatch.context() as patch:
            patch.chdir(self.directory)
            for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
                patch.delenv(name)
            for name, value in settings.items():
                patch.setenv(f"HOLDFAST_{name}", value)
            patch.setattr(sys, "argv", ["holdfast", *arguments])
            with pytest.raises(SystemExit) as exit_:
                main()
        out, err = self.capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return Ran(exit_.value.code, out, err)


def checks(ran: Ran) -> dict[str, dict[str, Any]]:
    """The findings by name; the worst if there are several."""
    severity = ["ok", "warn", "fail"]
    found = sorted(ran.json["checks"], key=lambda check: severity.index(check["level"]))
    assert ran.json["ok"] == (ran.code == 0) == all(check["ok"] for check in found)
    for check in found:
        assert check["ok"] == (check["level"] != "fail")
        assert (check["fix"] is None) == (check["level"] == "ok"), check
    return {check["name"]: check for check in found}
