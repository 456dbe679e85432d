"""The clock of a server's host, which a test sets: a library that is preloaded into the server (`clock_shim.c`)."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack


class HostClock:
    def __init__(self, directory: Path) -> None:
        self._library, self._offset = directory / "clock_shim.so", directory / "offset"
        source = Path(__file__).with_name("clock_shim.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self._library), str(source), "-ldl"], check=True)
        self._offset.write_bytes(pack("=q", 0))
        self._offset.chmod(0o644)

    @contextmanager
    def preloaded(self) -> Iterator[None]:
        """Servers that are started meanwhile go by this clock."""
        given = {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._offset)}
        os.environ.update(given)
        try:
            yield
        finally:
            for name in given:
                del os.environ[name]

    def step(self, ms: int) -> None:
        """How far it is off from now on."""
        with self._offset.open("r+b") as file:
            file.write(pack("=q", ms))


@contextmanager
def host_clock() -> Iterator[HostClock]:
    with tempfile.TemporaryDirectory(prefix="holdfast-clock-") as directory:
        # PostgreSQL runs as a user of its own.
        Path(directory).chmod(0o755)
        yield HostClock(Path(directory))
