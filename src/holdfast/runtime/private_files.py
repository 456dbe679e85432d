"""Files and directories that only their owner can read, whatever the umask is."""

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from holdfast.errors import SettingsError


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


def generated_secret(path: Path, prefix: str, least: int) -> str:
    """A secret generated once and stored in this file, readable only by its owner."""
    if not path.exists():
        make_private_directory(path.parent)
        # Written to a private temporary file, then linked: if two processes race, one wins and both read its key.
        handle, draft = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(prefix + secrets.token_urlsafe(32))
        with suppress(FileExistsError):
            os.link(draft, path)
        Path(draft).unlink()
    return _read_back(path, prefix, least)


def _read_back(path: Path, prefix: str, least: int) -> str:
    """A truncated file (full disk, manual edit) would make a key that anyone can guess."""
    secret = path.read_text(errors="replace").strip()
    if not secret.startswith(prefix) or not secret.isascii() or len(secret) < least:
        raise SettingsError(
            f"{path} is {'damaged' if secret else 'empty'}: it must have at least {least} characters; "
            "remove it and the next start generates a new one"
        )
    return secret
