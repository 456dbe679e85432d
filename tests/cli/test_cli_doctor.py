"""`holdfast doctor` on broken setups: settings, secrets, files, limits."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_running import Cli, Here, checks, run_in_terminal

from forking import HOLDFAST

pytest_plugins = ("cli_fixtures",)

SECRET = "hf_a-secret-that-nobody-may-ever-see"


@pytest.fixture
def sound(here: Here) -> Here:
    """A sound setup."""
    here("pools", "create", "demo", "--units", "5")
    (here.directory / "data" / "service_key").write_text("hf_" + "x" * 40)
    (here.directory / "data" / "service_key").chmod(0o600)
    return here


def files_in(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


def test_a_sound_setup_passes(sound: Here) -> None:
    before = files_in(sound.directory)
    ran = Cli(sound.directory)("doctor", "--json")
    assert ran.err == ""
    found = checks(ran)
    wanted = {"settings", "data", "service key", "database", "tables", "durability", "engine", "filesystem", "disk"}
    assert wanted | {"ledger mark", "clock", "server", "open files", "python"} == found.keys()
    assert found["durability"]["found"].startswith("journal_mode wal, synchronous FULL")
    assert found["server"]["found"] == "none is running on this database"
    assert files_in(sound.directory) == before


def test_on_a_terminal_every_finding_has_its_mark_and_its_fix(sound: Here) -> None:
    (sound.directory / "data" / "service_key").chmod(0o644)
    lines = run_in_terminal(Cli(sound.directory, {"LOG_LEVL": "debug"}), "doctor")
    assert any(line.startswith("✓ tables") for line in lines)
    assert any(line.startswith("! environment") for line in lines)
    assert any(line.startswith("✗ service key") for line in lines)
    assert any(line.strip() == "→ chmod 600 data/service_key" for line in lines)
    failed = sum(line.startswith("✗") for line in lines)  # One more if the tests' files are in memory.
    assert lines[-1] == f"{failed} failed, 1 warning."


def test_an_empty_directory_passes_and_stays_empty(here: Here) -> None:
    found = checks(here("doctor", "--json"))
    assert found["database"]["level"] == "warn"
    assert found["database"]["fix"] == "holdfast serve"
    assert found["data"]["found"].endswith("will be created when needed")
    assert files_in(here.directory) == []


def test_settings_are_shown_with_their_source_and_without_secrets(here: Here) -> None:
    (here.directory / "holdfast.toml").write_text(f'queue_max = 99\nservice_key = "{SECRET}"\n')
    (here.directory / "holdfast.toml").chmod(0o600)
    ran = here("doctor", "--data", "here", "--json", BUYER_SECRET=SECRET, BATCH_MAX="7")
    shown = {setting["name"]: (setting["value"], setting["source"]) for setting in ran.json["settings"]}
    assert shown["data"] == ("here", "--data")
    assert shown["batch_max"] == ("7", "HOLDFAST_BATCH_MAX")
    assert shown["queue_max"] == ("99", "holdfast.toml")
    assert shown["service_key"] == ("set (hidden)", "holdfast.toml")
    assert shown["buyer_secret"] == ("set (hidden)", "HOLDFAST_BUYER_SECRET")
    assert shown["queue_timeout_ms"] == ("2000", "default")
    assert SECRET not in ran.out + here("doctor", BUYER_SECRET=SECRET, SERVICE_KEY=SECRET).out


def test_passwords_in_urls_are_hidden(here: Here) -> None:
    url = "postgresql://user:pa55word@127.0.0.1:1/shop?password=pa55word"
    assert "pa55word" not in here("doctor", DATABASE_URL=url).out
    assert "pa55word" not in here("doctor", "--json", DATABASE_URL=url).out


@pytest.mark.parametrize(
    ("given", "meant"), [("DATABSE_URL", "HOLDFAST_DATABASE_URL"), ("SERVICEKEY", "HOLDFAST_SERVICE_KEY")]
)
def test_a_misspelt_variable_is_found(given: str, meant: str, sound: Here) -> None:
    check = checks(sound("doctor", "--json", **{given: "sqlite:///elsewhere.db"}))["environment"]
    assert check["level"] == "warn"
    assert check["found"] == f"HOLDFAST_{given} is not a setting; did you mean {meant}?"
    assert check["fix"] == f'export {meant}="$HOLDFAST_{given}"; unset HOLDFAST_{given}'


def test_an_unknown_variable_is_found(sound: Here) -> None:
    check = checks(sound("doctor", "--json", MOON_PHASE="full"))["environment"]
    assert check["found"] == "HOLDFAST_MOON_PHASE is not a setting of this version"


def test_an_invalid_setting_does_not_hide_other_findings(here: Here) -> None:
    ran = here("doctor", "--json", BATCH_MAX="many", BUYER_SECRET="short")
    failed = [check for check in ran.json["checks"] if check["level"] == "fail"]
    assert {check["fix"] for check in failed} == {"correct HOLDFAST_BATCH_MAX", "correct HOLDFAST_BUYER_SECRET"}
    assert "python" in checks(ran)
    assert ran.code == 1


@pytest.mark.parametrize("url", ["nonsense", "mysql://h/x", "sqlite:///:memory:", "postgresql://h:port/x"])
def test_an_invalid_url_is_a_finding(url: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=url))["settings"]
    assert (check["level"], check["fix"]) == ("fail", "correct HOLDFAST_DATABASE_URL")


@pytest.mark.parametrize(
    ("text", "mode", "level", "found"),
    [
        ("data = [", 0o600, "fail", "cannot be read"),
        ("bach_max = 3", 0o644, "warn", "bach_max is not a setting; did you mean batch_max?"),
        ("moon = 3", 0o644, "warn", "moon is not a setting of this version"),
        (f'service_key = "{SECRET}"', 0o644, "fail", "holds service_key, but other users can read it"),
        (f'service_key = "{SECRET}"', 0o600, "ok", "1 settings"),
    ],
)
def test_holdfast_toml_is_checked(text: str, mode: int, level: str, found: str, here: Here) -> None:
    (here.directory / "holdfast.toml").write_text(text)
    (here.directory / "holdfast.toml").chmod(mode)
    check = checks(here("doctor", "--json"))["holdfast.toml"]
    assert check["level"] == level
    assert found in check["found"]


def test_the_fix_for_a_world_readable_secret_works(sound: Here) -> None:
    path = sound.directory / "data" / "service_key"
    path.chmod(0o644)
    check = checks(sound("doctor", "--json"))["service key"]
    assert check["level"] == "fail"
    assert "mode 644" in check["found"]
    subprocess.run(["sh", "-c", check["fix"]], cwd=sound.directory, check=True)
    assert checks(sound("doctor", "--json"))["service key"]["level"] == "ok"


def test_an_empty_secret_is_a_failure(sound: Here) -> None:
    (sound.directory / "data" / "service_key").write_text("\n")
    assert checks(sound("doctor", "--json"))["service key"]["level"] == "fail"


@pytest.mark.parametrize("directory", ["a-file", "a-file/below"])
def test_an_impossible_data_directory_is_a_failure(directory: str, here: Here) -> None:
    (here.directory / "a-file").write_text("")
    check = checks(here("doctor", "--json", "--data", directory))["data"]
    assert check["level"] == "fail"
    assert "a-file is not a directory" in check["found"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux")
def test_a_data_directory_that_cannot_be_created_is_a_failure_also_for_root(here: Here) -> None:
    check = checks(here("doctor", "--json", "--data", "/proc/x"))["data"]
    assert (check["level"], check["fix"]) == ("fail", "choose another with --data or HOLDFAST_DATA")
    assert "/proc/x cannot be created" in check["found"]


def test_an_unwritable_data_directory_is_a_failure(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, because root may write anywhere."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    check = checks(here("doctor", "--json"))["data"]
    assert check["level"] == "fail"
    assert check["fix"].startswith("sudo chown")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs Linux")
def test_a_directory_in_memory_is_a_failure(here: Here) -> None:
    directory = Path(f"/dev/shm/holdfast-test-{os.getpid()}")
    directory.mkdir()
    try:
        check = checks(here("doctor", "--json", "--data", str(directory)))["filesystem"]
    finally:
        shutil.rmtree(directory)
    assert check["level"] == "fail"
    assert "tmpfs" in check["found"]
    assert "HOLDFAST_DATA=" in check["fix"]


@pytest.mark.parametrize(("limit", "level"), [(200, "fail"), (1024, "warn")])
def test_too_few_open_files_are_found(limit: int, level: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (limit, limit))
    check = checks(here("doctor", "--json"))["open files"]
    assert check["level"] == level
    assert f"{limit:,} at once" in check["found"]


def test_the_open_files_limit_comes_from_the_shell(tmp_path: Path) -> None:
    command = f"ulimit -n 300; exec {' '.join(HOLDFAST)} doctor"
    environment = Cli(tmp_path).environment({})
    ran = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert "300 at once" in ran.stdout.decode()
