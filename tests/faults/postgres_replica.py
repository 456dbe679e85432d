"""A PostgreSQL with a streaming replica, which can be made to lag and then be promoted under the primary's address."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from postgres_process import START_TIMEOUT_S, PostgresProcess, own_postgres


class Replicated:
    """`url` leads to the primary, and after `promote` to what was its replica."""

    def __init__(self, directory: Path, primary: PostgresProcess, replica: PostgresProcess) -> None:
        self.primary, self.replica = primary, replica
        self._address = directory / "address"
        self._address.symlink_to(primary.data)
        self.url = f"postgresql://postgres:@/postgres?host={self._address}"

    def catch_up(self) -> None:
        at = self.primary.sql("SELECT pg_current_wal_flush_lsn()")
        _until(lambda: self.replica.sql(f"SELECT pg_last_wal_replay_lsn() >= '{at}'") == "t")

    @property
    def urls_together(self) -> str:
        """Both by one URL, as libpq writes it."""
        return f"postgresql://postgres:@127.0.0.1:{self.primary.port},127.0.0.1:{self.replica.port}/postgres"

    def make_synchronous(self) -> None:
        """From now on nothing is acknowledged that the replica does not have."""
        self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.sql("SELECT pg_reload_conf()")
        _until(lambda: self.primary.sql("SELECT sync_state FROM pg_stat_replication") == "sync")

    def cut_off_replica(self) -> None:
        """It keeps what it has and gets nothing more, as behind a broken network."""
        self.replica.sql("ALTER SYSTEM SET primary_conninfo = ''")
        self.replica.sql("SELECT pg_reload_conf()")
        _until(lambda: self.primary.sql("SELECT count(*) FROM pg_stat_replication") == "0")

    def promote(self) -> None:
        """The primary dies, and its address leads to the replica."""
        self.primary.kill()
        self.replica.sql("SELECT pg_promote()")
        _until(lambda: self.replica.sql("SELECT pg_is_in_recovery()") == "f")
        self._address.unlink()
        self._address.symlink_to(self.replica.data)


@contextmanager
def replicated(directory: Path, *, port: int | None = None) -> Iterator[Replicated]:
    """With a port, both listen on loopback, the primary on this one."""
    with own_postgres(port=port) as primary:
        data = primary.data.with_name("replica")
        data.mkdir(mode=0o700)
        if primary.user is not None:
            shutil.chown(data, primary.user)
        primary.run("pg_basebackup", "-D", str(data), "-R", "-X", "stream", "-c", "fast")
        for copied in data.glob(".s.PGSQL.*"):
            copied.unlink()  # The primary's sockets are in its data.
        replica = primary.beside(data)
        replica.start()
        try:
            yield Replicated(directory, primary, replica)
        finally:
            replica.stop()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)
