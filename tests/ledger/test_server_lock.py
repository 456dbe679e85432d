"""One server process per SQLite file, for as long as it lives and no longer."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import AlreadyRunning
from holdfast.ledger.engine.server_lock import ServerLock

HOLDER = """
import sys
from contextlib import closing
from pathlib import Path
from holdfast.ledger.engine.server_lock import ServerLock
lock = ServerLock(Path(sys.argv[1]), "server").acquire()
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "not there yet" / "holdfast.db"


def test_a_second_server_is_told_who_is_there_and_what_to_do(file: Path) -> None:
    lock = ServerLock(file, "server").acquire()
    with pytest.raises(AlreadyRunning) as refusal:
        ServerLock(file, "server").acquire()
    lock.release()
    message = str(refusal.value)
    for part in (f"process {os.getpid()}", str(file.parent), "--data", "HOLDFAST_DATABASE_URL=postgresql://"):
        assert part in message


def test_the_lock_can_be_taken_again_after_it_was_given_back(file: Path) -> None:
    lock = ServerLock(file, "server")
    for _ in range(3):
        lock.acquire()
        lock.release()
        lock.release()


def test_a_server_and_a_worker_do_not_exclude_one_another_nor_do_two_files(file: Path) -> None:
    locks = [ServerLock(file, "server"), ServerLock(file, "worker"), ServerLock(file.with_name("b.db"), "server")]
    for lock in locks:
        lock.acquire()
    for lock in locks:
        lock.release()


def test_the_lock_ends_with_the_process_however_it_ends(file: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(AlreadyRunning, match=f"process {holder.pid}"):
            ServerLock(file, "server").acquire()
        holder.kill()
    ServerLock(file, "server").acquire().release()


def test_a_link_to_a_database_is_that_database(tmp_path: Path) -> None:
    file, link = tmp_path / "real" / "holdfast.db", tmp_path / "link.db"
    file.parent.mkdir()
    file.touch()
    link.symlink_to(file)
    held = ServerLock(link, "server").acquire()
    try:
        assert ServerLock(file, "server").owner() == str(os.getpid())
        with pytest.raises(AlreadyRunning):
            ServerLock(file, "server").acquire()
    finally:
        held.release()
    assert ServerLock(file, "server").owner() is None


def test_looking_for_an_owner_makes_no_file(tmp_path: Path) -> None:
    assert ServerLock(tmp_path / "holdfast.db", "server").owner() is None
    assert list(tmp_path.iterdir()) == []


def test_deleting_the_lock_file_lets_no_second_server_in(file: Path) -> None:
    lock = ServerLock(file, "server").acquire()
    try:
        file.with_name(f"{file.name}.server.lock").unlink()
        with pytest.raises(AlreadyRunning):
            ServerLock(file, "server").acquire()
    finally:
        lock.release()
    ServerLock(file, "server").acquire().release()


def test_moving_the_database_lets_no_second_server_in(file: Path) -> None:
    lock = ServerLock(file, "server").acquire()
    try:
        file.rename(file.with_name("moved.db"))
        with pytest.raises(AlreadyRunning):
            ServerLock(file, "server").acquire()
    finally:
        lock.release()


def test_the_lock_outlives_the_connections_of_its_process(file: Path) -> None:
    """SQLite's own locks end when any descriptor of the file is closed; this one must not."""
    lock = ServerLock(file, "server").acquire()
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE t (x)")
        file.with_name(f"{file.name}.server.lock").unlink()
        with pytest.raises(AlreadyRunning):
            ServerLock(file, "server").acquire()
    finally:
        lock.release()
