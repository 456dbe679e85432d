"""The real command line, in a directory of its own, with no setting but those given.

`Cli` is a process of its own, as people use it. `Here` calls the same entry point in this process, for the many cases
where starting Python would take a hundred times as long as what is tested.
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

from holdfast.cli import main

HOLDFAST = (sys.executable, "-m", "holdfast")
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
        """What a program that asked for JSON is told went wrong; people are told the same."""
        told: str = json.loads(self.out)["error"]
        assert told in self.err
        return told

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True)
class Cli:
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, **settings: str) -> Ran:
        ran = subprocess.run(
            [*HOLDFAST, *arguments],
            cwd=self.directory,
            env=self.environment(settings),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
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
            # A shell's background jobs ignore Ctrl-C, and what they start inherits that; a person's terminal does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def stop(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Send a signal; say how the process exited and what it had said."""
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, err


def run_all(calls: Sequence[tuple[Cli, Sequence[str]]]) -> list[Ran]:
    """Several at once: most of a short command's time is spent on starting Python."""
    with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as threads:
        return list(threads.map(lambda call: call[0](*call[1]), calls))


def run_in_terminal(cli: Cli, *arguments: str) -> list[str]:
    """The lines shown on a terminal of 80 columns, without their colours."""
    ours, theirs = pty.openpty()
    subprocess.run([*HOLDFAST, *arguments], cwd=cli.directory, env=cli.environment({}), stdout=theirs, check=False)
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
    """What the doctor found, by name; of several by one name, the worst."""
    severity = ["ok", "warn", "fail"]
    told = sorted(ran.json["checks"], key=lambda check: severity.index(check["level"]))
    assert ran.json["ok"] == (ran.code == 0) == all(check["ok"] for check in told)
    for check in told:
        assert check["ok"] == (check["level"] != "fail")
        assert (check["mend"] is None) == (check["level"] == "ok"), check
    return {check["name"]: check for check in told}
