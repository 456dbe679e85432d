"""The machine: Python, limits, the data directory, its secrets and its disk."""

import os
import platform
import resource
import shlex
import shutil
import tempfile
from pathlib import Path

from holdfast import __version__
from holdfast.cli.checks.finding import Finding, fail, ok, warn
from holdfast.http.address import CONNECTIONS_MAX
from holdfast.settings import Settings

# A server needs files besides its connections: the database, its log, the loop's own.
OTHER_FILES = 64
LEAST_FILES = 256
WANTED_FILES = 65_536

# An event takes some hundred bytes: the first is about a million reservations, the second is a day of a busy shop.
LEAST_FREE_BYTES = 200 * 1024**2
WANTED_FREE_BYTES = 2 * 1024**3


def check_python() -> Finding:
    return ok("python", f"{platform.python_version()}, with Holdfast {__version__}")


def check_open_files() -> Finding:
    """The hard limit counts: granian raises the soft one to it."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= CONNECTIONS_MAX + OTHER_FILES:
        return ok("open files", "no limit" if limit == resource.RLIM_INFINITY else f"{limit:,} at once")
    found = f"{limit:,} at once: a crowd of more than {max(limit - OTHER_FILES, 0):,} connections is kept waiting"
    mend = f"sudo prlimit --nofile={WANTED_FILES} --pid $$, then start the server (systemd: LimitNOFILE={WANTED_FILES})"
    return (fail if limit < LEAST_FILES else warn)("open files", found, mend)


def check_data(settings: Settings) -> Finding:
    data, there = settings.data.resolve(), nearest(settings.data)
    if not there.is_dir():
        return fail("data", f"{there} is not a directory", "choose another with --data or HOLDFAST_DATA")
    if not os.access(there, os.W_OK | os.X_OK):
        return fail("data", f"{there} cannot be written to", f'sudo chown "$USER" {shlex.quote(str(there))}')
    trouble = _try_writing(there)
    if trouble is not None:
        found = f"{data} cannot be {'written to' if there == data else 'made'}: {there}: {trouble}"
        return fail("data", found, "choose another with --data or HOLDFAST_DATA")
    return ok("data", f"{data} can be written to" if there == data else f"{data} will be made when it is needed")


def _try_writing(directory: Path) -> str | None:
    """What is in the way, if anything. Permissions do not tell all: nobody can make anything in /proc."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as exc:
        return exc.strerror


def check_secret_files(settings: Settings) -> list[Finding]:
    """Generated keys open everything; nobody else on this machine may read them."""
    return [
        _check_secret_file(settings.data / name)
        for name in ("service_key", "buyer_secret")
        if not getattr(settings, name).get_secret_value() and _exists(settings.data / name)
    ]


def _check_secret_file(path: Path) -> Finding:
    name, quoted = path.name.replace("_", " "), shlex.quote(str(path))
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        return fail(name, f"{path} can be read by others (mode {mode:o})", f"chmod 600 {quoted}")
    if not os.access(path, os.R_OK):
        return fail(name, f"{path} belongs to another user", f'sudo chown "$USER" {quoted}')
    if not path.read_bytes().strip():
        return fail(name, f"{path} is empty", f"rm {quoted}; the next start makes a new one")
    return ok(name, f"generated, in {path} (mode {mode:o})")


def check_disk(directory: Path) -> Finding:
    there = nearest(directory)
    free = shutil.disk_usage(there).free
    found = f"{free / 1024**3:,.1f} GiB free at {there}"
    mend = "free some space, or move the data directory: HOLDFAST_DATA=/somewhere/larger"
    if free < LEAST_FREE_BYTES:
        return fail("disk", found, mend)
    return warn("disk", found, mend) if free < WANTED_FREE_BYTES else ok("disk", found)


def check_wrk() -> Finding:
    path = shutil.which("wrk")
    return ok("wrk", path or "not installed; only `holdfast bench http` would use it")


def nearest(path: Path) -> Path:
    """The path itself, or the first directory above it that exists."""
    path = path.resolve()
    while not _exists(path) and path != path.parent:
        path = path.parent
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
