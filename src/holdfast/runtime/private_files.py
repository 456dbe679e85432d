"""Files and directories that only their owner can read, whatever the umask is."""

import os
from pathlib import Path


def make_private_directory(path: Path) -> None:
    """With its parents. One that exists stays as it is."""
    if path.is_dir():
        return
    make_private_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def ensure_private_file(path: Path) -> None:
    """An empty file for a library that would create one that others can read. What exists stays as it is."""
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
