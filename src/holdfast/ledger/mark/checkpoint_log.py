"""Checkpoints in the data directory, one line each, to be copied elsewhere.

Every server keeps such a file. A checkpoint covers everything before it, so old ones are dropped: the newest one in any
copy is enough.
"""

import asyncio
import os
from pathlib import Path

import msgspec

from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.mark.mark import KeptMark
from holdfast.runtime.private_files import make_private_directory

# About a day of checkpoints every second, in two files.
FILE_MAX_BYTES = 16 * 1024**2
_LINE_MAX_BYTES = 1_024


class CheckpointLog:
    """A `MarkStore` that is only written to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._root = ""

    async def read(self) -> KeptMark | None:
        return None

    async def write(self, kept: KeptMark) -> None:
        if kept.checkpoint is not None and kept.checkpoint.root != self._root:
            await asyncio.to_thread(self._append, kept.checkpoint)
            self._root = kept.checkpoint.root

    def _append(self, checkpoint: Checkpoint) -> None:
        make_private_directory(self._path.parent)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(file).st_size
            # Another process of this server may have written it.
            if checkpoint.root.encode() in os.pread(file, _LINE_MAX_BYTES, max(size - _LINE_MAX_BYTES, 0)):
                return
            # Terminates a line that a crash truncated.
            torn = size and os.pread(file, 1, size - 1) != b"\n"
            os.write(file, b"\n" * bool(torn) + msgspec.json.encode(checkpoint) + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        if size > FILE_MAX_BYTES:
            self._path.replace(self._path.with_name(f"{self._path.stem}.1{self._path.suffix}"))
