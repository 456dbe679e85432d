"""`holdfast backup` and `holdfast restore`: what comes back is what was there, and nothing is ever replaced."""

import json
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli_running import Here, Ran

from databases import empty_postgres_database, sqlite_url
from holdfast.bootstrap.backup.archive import new_archive
from holdfast.bootstrap.backup.backup import restore
from holdfast.bootstrap.backup.sqlite import put_database
from holdfast.errors import SettingsError
from holdfast.settings import Settings

pytest_plugins = ("cli_fixtures",)

Command = Callable[..., Ran]
Another = Callable[[], dict[str, str]]


@pytest.fixture
def command(here: Here, database_url: str) -> Command:
    run = partial(here, DATABASE_URL=database_url)
    run("pools", "create", "demo", "--units", "5")
    assert run("keys", "create", "--name", "till", "--scope", "inventory").code == 0
    assert run("backup", "whole.tar.gz").code == 0
    return run


@pytest.fixture
def another(engine: str, here: Here, request: pytest.FixtureRequest) -> Another:
    """The settings of a place with nothing in it."""

    def place() -> dict[str, str]:
        data = here.directory / "other"
        if engine == "sqlite":
            return {"DATA": str(data), "DATABASE_URL": sqlite_url(data / "holdfast.db")}
        return {"DATA": str(data), "DATABASE_URL": empty_postgres_database(request.getfixturevalue("postgres_url"))}

    return place


def test_a_restored_ledger_is_the_one_that_was_backed_up(command: Command, here: Here, another: Another) -> None:
    made = command("backup", "again.tar", "--json").json
    assert (made["ok"], made["verify"]["ok"], made["tables"]["pools"]) == (True, True, 1)
    place = another()
    restored = here("restore", "again.tar", "--json", **place).json
    assert (restored["ok"], restored["tables"], restored["went_back"]) == (True, made["tables"], [])
    for shown in (("pools", "list", "--json"), ("keys", "list", "--json")):
        assert here(*shown, **place).json == command(*shown).json
    assert here("verify", **place).code == 0
    # Events go on with the next number.
    assert here("pools", "create", "more", "--units", "1", **place).code == 0
    assert here("backup", "after.tar", "--json", **place).json["events"] > made["events"]


def test_a_restore_never_replaces_anything(command: Command, here: Here, another: Another) -> None:
    refused = command("restore", "whole.tar.gz", "--json")
    assert (refused.code, "never replaces" in refused.refusal) == (2, True)
    assert command("backup", "whole.tar.gz", "--json").refusal.startswith("whole.tar.gz exists")
    place = another()
    key = Path(place["DATA"]) / "service_key"
    (here.directory / "data").mkdir(exist_ok=True)
    (here.directory / "data" / "service_key").write_text("hf_" + "a" * 32)
    assert command("backup", "keys.tar").code == 0
    key.parent.mkdir()
    key.write_text("hf_" + "b" * 32)
    assert "not the one of the backup" in here("restore", "keys.tar", "--json", **place).refusal
    key.unlink()
    assert here("restore", "keys.tar", "--json", **place).json["data_files"] == ["service_key"]
    assert key.read_text() == "hf_" + "a" * 32
    assert key.stat().st_mode & 0o077 == 0


def test_an_archive_that_was_cut_off_or_changed_is_refused(command: Command, here: Here, another: Another) -> None:
    assert command("backup", "plain.tar").code == 0
    whole = (here.directory / "plain.tar").read_bytes()
    place = another()
    (here.directory / "cut.tar").write_bytes(whole[: len(whole) // 2])
    assert "not a whole backup" in here("restore", "cut.tar", "--json", **place).refusal
    (here.directory / "page.html").write_text("<html>")
    junk = here("restore", "page.html", **place)
    assert junk.err == "holdfast: page.html is not a whole backup: file could not be opened successfully\n"
    at = whole.index(b"demo")
    (here.directory / "changed.tar").write_bytes(whole[:at] + b"dEmo" + whole[at + 4 :])
    assert "was changed or cut off" in here("restore", "changed.tar", "--json", **place).refusal
    with tarfile.open(here.directory / "odd.tar", "w") as tar:
        tar.add(here.directory / "plain.tar", "../outside")
    assert "not a backup of Holdfast" in here("restore", "odd.tar", "--json", **place).refusal
    assert here("restore", "plain.tar", **place).code == 0, "nothing of the failures is left"


def test_the_archive_is_private_and_says_what_it_is(command: Command, here: Here) -> None:
    assert command("backup", "said.tar", "--no-verify", "--json").json["verify"] is None
    file = here.directory / "said.tar"
    assert file.stat().st_mode & 0o077 == 0
    with tarfile.open(file) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert manifest["format"] == 1
    assert manifest["tables"]["pools"]["rows"] == 1
    assert not list(here.directory.glob("*.partial"))
    assert not list(here.directory.glob(".holdfast-backup-*"))


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_backup_of_the_other_engine_is_refused_by_name(here: Here) -> None:
    refused = here("restore", "whole.tar.gz", "--json", DATA=str(here.directory / "new"))
    assert "backup of postgresql" in refused.refusal


def test_an_archive_does_not_replace_a_file_that_was_created_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError

    file, victim = tmp_path / "whole.tar", tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / "whole.tar.partial").symlink_to(victim)
    for has_links in (True, False):
        if not has_links:
            monkeypatch.setattr("os.link", no_links)
        with pytest.raises(SettingsError, match="exists"), new_archive(file):
            file.write_text("theirs")
        assert (file.read_text(), victim.read_text()) == ("theirs", "theirs")
        file.unlink()
        with new_archive(file):
            pass
        assert tarfile.is_tarfile(file)
        file.unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["victim", "whole.tar.partial"]


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_restore_unpacks_beside_the_database_file_which_may_be_on_another_filesystem(here: Here) -> None:
    beside = here.directory / "elsewhere"
    settings = Settings(data=here.directory / "new", database_url=sqlite_url(beside / "holdfast.db"))
    seen: list[Path] = []
    file = here.directory / "whole.tar.gz"
    await restore(settings, file, verified=False, progress=lambda _: seen.extend(beside.glob(".restore-*")))
    assert seen
    assert not list(beside.glob(".restore-*"))


def test_a_restore_that_failed_to_move_the_database_can_be_repeated(tmp_path: Path) -> None:
    copy, file = tmp_path / "copy", tmp_path / "holdfast.db"
    with pytest.raises(FileNotFoundError):
        put_database(copy, file)
    copy.write_text("whole")
    put_database(copy, file)
    assert file.read_text() == "whole"
