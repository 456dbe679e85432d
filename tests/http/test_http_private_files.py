"""What a server writes is for its own user, whatever the system's defaults."""

import stat
from pathlib import Path

import pytest
from http_calling import Shop, eventually
from http_serving import SERVE, run_holdfast, settings_of, started

# As most systems have it: others may read what is not said otherwise.
OPEN_BY_DEFAULT = ("sh", "-c", 'umask 022; exec "$0" "$@"', *SERVE)


def open_to_others(directory: Path) -> dict[str, str]:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.rglob("*"))}
    return {str(path): f"{mode:o}" for path, mode in modes.items() if mode & 0o077}


def test_only_its_own_user_can_read_what_a_server_writes(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    settings = {"DATA": str(data), "SERVICE_KEY": "", "BUYER_SECRET": ""}
    with (
        started(tmp_path, settings=settings, command=OPEN_BY_DEFAULT) as server,
        server.connect((data / "service_key").read_text().strip()) as client,
    ):
        shop = Shop(client, "private")
        shop.provision(1)
        shop.hold()
        assert shop.reserve().status_code == 409  # For the audit.
        eventually(lambda: [*data.glob("audit/*.jsonl")])
        names = {path.name for path in data.iterdir()}
        assert {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm", "audit", "service_key"} <= names
        assert any(name.endswith(".lock") for name in names)
        assert open_to_others(tmp_path / "new") == {}


@pytest.mark.parametrize("name", [".", "holdfast.db", "audit"])
def test_doctor_says_what_others_can_read(tmp_path: Path, name: str) -> None:
    environment = settings_of(tmp_path, {})
    migrated = run_holdfast("migrate", directory=tmp_path, environment=environment)
    assert migrated.returncode == 0, migrated.stderr
    data = tmp_path / "data"
    (data / "audit").mkdir(mode=0o700, exist_ok=True)
    closed = run_holdfast("doctor", directory=tmp_path, environment=environment)
    assert "can be read by others" not in closed.stdout
    (data / name).chmod(0o755)
    opened = run_holdfast("doctor", directory=tmp_path, environment=environment)
    assert "can be read by others" in opened.stdout
    assert "chmod -R go= " in opened.stdout
