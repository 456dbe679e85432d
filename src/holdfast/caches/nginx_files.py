"""Removes a sale's responses from nginx's cache by deleting their files.

nginx writes the cache key into each file. A deleted file is a miss for the next request, because nginx reopens it each
time. A scan reads the beginning of every file. There are few files, because few responses are the same for everyone.
"""

import re
from pathlib import Path

# nginx's own header and any of our keys are shorter than this.
_HEAD_BYTES = 4_096
_KEY = re.compile(rb"\nKEY: ([^\n]*)\n")


def remove_cached(directory: Path, sale_id: str) -> int:
    """Returns how many were removed. If nginx has not created the directory yet, there are none."""
    return sum(_remove(file) for file in directory.rglob("*") if file.is_file() and _is_about(_key_of(file), sale_id))


def _key_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            found = _KEY.search(opened.read(_HEAD_BYTES))
    except FileNotFoundError:  # nginx has replaced or removed it meanwhile.
        return ""
    return "" if found is None else found[1].decode(errors="replace")


def _is_about(key: str, sale_id: str) -> bool:
    """By the keys of `edge/nginx/nginx.conf`: `now ID`, `facts ID`, and the addresses of pages."""
    escaped = re.escape(sale_id)
    return re.search(rf"^(now|facts) {escaped}$|/(s|lottery|v1/sales)/{escaped}([/? ]|$)", key) is not None


def _remove(file: Path) -> bool:
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True
