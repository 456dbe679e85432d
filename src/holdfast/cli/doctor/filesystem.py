"""Whether the embedded database is on a durable file system."""

import re
from pathlib import Path

from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.cli.doctor.host import nearest

MOUNTS = Path("/proc/self/mountinfo")

IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
# SQLite's WAL needs shared memory and reliable locks between processes, which network file systems lack.
NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2",
    "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "vboxsf",
})  # fmt: skip
_FIX = "use a directory on a local disk: HOLDFAST_DATA=/var/lib/holdfast"


def check_filesystem(file: Path) -> Finding:
    there = nearest(file.parent)
    kind = filesystem_of(there)
    if kind is None:
        return ok("filesystem", f"of {there} cannot be determined here; make sure it is a local disk")
    if kind in IN_MEMORY:
        return fail("filesystem", f"{there} is in memory ({kind}): all data is lost on restart", _FIX)
    if kind in NETWORK:
        return fail("filesystem", f"{there} is on a network ({kind}): SQLite's locks are unreliable there", _FIX)
    if kind == "overlay":
        found = f"{there} is the container's writable layer (overlay): it is deleted with the container"
        return warn("filesystem", found, "mount a volume: docker run -v holdfast:/data -e HOLDFAST_DATA=/data …")
    return ok("filesystem", f"{there} is on {kind}")


def filesystem_of(directory: Path) -> str | None:
    """The file system type of a directory, if the system tells (Linux does)."""
    try:
        lines = MOUNTS.read_text().splitlines()
    except OSError:
        return None
    mounts = [_mount(line) for line in lines]
    # Later mounts hide earlier ones at the same path, so the last of the longest matches wins.
    over = [mount for mount in mounts if directory.is_relative_to(mount[0])]
    return max(enumerate(over), key=lambda m: (len(m[1][0].parts), m[0]))[1][1] if over else None


def _mount(line: str) -> tuple[Path, str]:
    """The mount point and type of a mountinfo line, which escapes spaces as octal."""
    before, _, after = line.partition(" - ")
    path = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split(" ")[4])
    return Path(path), after.split(" ")[0]
