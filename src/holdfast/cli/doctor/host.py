"""The host: Python, limits, and the data directory with its secrets and disk."""

import os
import platform
import resource
import shlex
import shutil
import tempfile
from pathlib import Path

from holdfast import __version__
from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.http.server.address import CONNECTIONS_MAX
from holdfast.settings import Settings

# File descriptors besides connections: the database, the log, the event loop.
OTHER_FILES = 64
LEAST_FILES = 256
WANTED_FILES = 65_536

# An event takes a few hundred bytes: about a million reservations, and a day of a busy shop.
LEAST_FREE_BYTES = 200 * 1024**2
WANTED_FREE_BYTES = 2 * 1024**3


def check_python() -> Finding:
    return ok("python", f"{platform.python_version()}, with Holdfast {__version__}")


def check_open_files() -> Finding:
    """Checks the hard limit, because granian raises the soft one to it."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= CONNECTIONS_MAX + OTHER_FILES:
        return ok("open files", "no limit" if limit == resource.RLIM_INFINITY else f"{limit:,} at once")
    found = f"{limit:,} at once: more than {max(limit - OTHER_FILES, 0):,} connections have to wait"
    fix = f"sudo prlimit --nofile={WANTED_FILES} --pid $$, then start the server (systemd: LimitNOFILE={WANTED_FILES})"
    return (fail if limit < LEAST_FILES else warn)("open files", found, fix)


def check_data(settings: Settings) -> Finding:
    data, there = settings.data.resolve(), nearest(settings.data)
    if not there.is_dir():
        return fail("data", f"{there} is not a directory", "choose another with --data or HOLDFAST_DATA")
    if not os.access(there, os.W_OK | os.X_OK):
        return fail("data", f"{there} is not writable", f'sudo chown "$USER" {shlex.quote(str(there))}')
    trouble = _try_writing(there)
    if trouble is not None:
        found = f"{data} cannot be {'written to' if there == data else 'created'}: {there}: {trouble}"
        return fail("data", found, "choose another with --data or HOLDFAST_DATA")
    if there == data and (opened := _open_to_others(data)):
        found = f"{', '.join(opened)} can be read by others"
        return warn("data", found, f"chmod -R go= {shlex.quote(str(data))}")
    return ok("data", f"{data} is writable" if there == data else f"{data} will be created when needed")


def _open_to_others(data: Path) -> list[str]:
    """The directory, and what in it has buyers' names: files made before this was taken care of stay as they are."""
    there = [path for path in (data, *data.glob("*.db*"), data / "audit") if _exists(path)]
    return [str(path) for path in there if path.stat().st_mode & 0o077]


def _try_writing(directory: Path) -> str | None:
    """The error, if any. Permissions are not enough: nobody can create files in /proc."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as exc:
        return exc.strerror


def check_secret_files(settings: Settings) -> list[Finding]:
    """Generated keys grant full access, so no other user may read them."""
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
        return fail(name, f"{path} is empty", f"rm {quoted}; the next start generates a new one")
    return ok(name, f"generated, in {path} (mode {mode:o})")


def check_disk(directory: Path) -> Finding:
    there = nearest(directory)
    free = shutil.disk_usage(there).free
    found = f"{free / 1024**3:,.1f} GiB free at {there}"
    fix = "free some space, or use another disk: HOLDFAST_DATA=/path/on/larger/disk"
    if free < LEAST_FREE_BYTES:
        return fail("disk", found, fix)
    return warn("disk", found, fix) if free < WANTED_FREE_BYTES else ok("disk", found)


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
