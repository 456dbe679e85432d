"""`holdfast doctor` on set-ups that are really broken: settings, secrets, files, limits."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_running import HOLDFAST, Cli, Here, checks, run_in_terminal

pytest_plugins = ("cli_fixtures",)

SECRET = "hf_a-secret-that-nobody-may-ever-see"


@pytest.fixture
def sound(here: Here) -> Here:
    """A place where everything is in order."""
    here("pools", "create", "demo", "--units", "5")
    (here.directory / "data" / "service_key").write_text("hf_" + "x" * 40)
    (here.directory / "data" / "service_key").chmod(0o600)
    return here


def files_in(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


def test_all_is_well_in_a_sound_place(sound: Here) -> None:
    before = files_in(sound.directory)
    ran = Cli(sound.directory)("doctor", "--json")
    assert ran.err == ""
    found = checks(ran)
    wanted = {"settings", "data", "service key", "database", "tables", "durability", "engine", "filesystem", "disk"}
    assert wanted | {"clock", "server", "open files", "python", "wrk"} == found.keys()
    assert found["durability"]["found"].startswith("journal_mode wal, synchronous FULL")
    assert found["server"]["found"] == "none runs on this database now"
    assert files_in(sound.directory) == before


def test_on_a_terminal_every_finding_has_its_mark_and_its_mend(sound: Here) -> None:
    (sound.directory / "data" / "service_key").chmod(0o644)
    lines = run_in_terminal(Cli(sound.directory, {"LOG_LEVL": "debug"}), "doctor")
    assert any(line.startswith("✓ tables") for line in lines)
    assert any(line.startswith("! environment") for line in lines)
    assert any(line.startswith("✗ service key") for line in lines)
    assert any(line.strip() == "→ chmod 600 data/service_key" for line in lines)
    assert lines[-1] == "1 failed, 1 warning."


def test_a_new_place_is_no_failure_and_stays_empty(here: Here) -> None:
    found = checks(here("doctor", "--json"))
    assert found["database"]["level"] == "warn"
    assert found["database"]["mend"] == "holdfast serve"
    assert found["data"]["found"].endswith("will be made when it is needed")
    assert files_in(here.directory) == []


def test_settings_are_told_with_their_source_and_without_their_secrets(here: Here) -> None:
    (here.directory / "holdfast.toml").write_text(f'line_max = 99\nservice_key = "{SECRET}"\n')
    (here.directory / "holdfast.toml").chmod(0o600)
    ran = here("doctor", "--data", "here", "--json", BUYER_SECRET=SECRET, BATCH_MAX="7")
    told = {setting["name"]: (setting["value"], setting["source"]) for setting in ran.json["settings"]}
    assert told["data"] == ("here", "--data")
    assert told["batch_max"] == ("7", "HOLDFAST_BATCH_MAX")
    assert told["line_max"] == ("99", "holdfast.toml")
    assert told["service_key"] == ("set (hidden)", "holdfast.toml")
    assert told["buyer_secret"] == ("set (hidden)", "HOLDFAST_BUYER_SECRET")
    assert told["patience_ms"] == ("2000", "default")
    assert SECRET not in ran.out + here("doctor", BUYER_SECRET=SECRET, SERVICE_KEY=SECRET).out


def test_passwords_in_addresses_are_hidden(here: Here) -> None:
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
    assert check["mend"] == f'export {meant}="$HOLDFAST_{given}"; unset HOLDFAST_{given}'


def test_a_variable_that_resembles_nothing_is_found_too(sound: Here) -> None:
    check = checks(sound("doctor", "--json", MOON_PHASE="full"))["environment"]
    assert check["found"] == "HOLDFAST_MOON_PHASE is not a setting of this version"


def test_an_invalid_setting_is_one_finding_among_others(here: Here) -> None:
    ran = here("doctor", "--json", BATCH_MAX="many", BUYER_SECRET="short")
    failed = [check for check in ran.json["checks"] if check["level"] == "fail"]
    assert {check["mend"] for check in failed} == {"correct HOLDFAST_BATCH_MAX", "correct HOLDFAST_BUYER_SECRET"}
    assert "python" in checks(ran)
    assert ran.code == 1


@pytest.mark.parametrize("url", ["nonsense", "mysql://h/x", "sqlite:///:memory:", "postgresql://h:port/x"])
def test_an_address_that_is_none_is_a_finding(url: str, here: Here) -> None:
    check = checks(here("doctor", "--json", DATABASE_URL=url))["settings"]
    assert (check["level"], check["mend"]) == ("fail", "correct HOLDFAST_DATABASE_URL")


@pytest.mark.parametrize(
    ("text", "mode", "level", "found"),
    [
        ("data = [", 0o600, "fail", "cannot be read"),
        ("bach_max = 3", 0o644, "warn", "bach_max is not a setting; did you mean batch_max?"),
        ("moon = 3", 0o644, "warn", "moon is not a setting of this version"),
        (f'service_key = "{SECRET}"', 0o644, "fail", "holds service_key, and others on this machine can read it"),
        (f'service_key = "{SECRET}"', 0o600, "ok", "1 settings"),
    ],
)
def test_holdfast_toml_is_read_critically(text: str, mode: int, level: str, found: str, here: Here) -> None:
    (here.directory / "holdfast.toml").write_text(text)
    (here.directory / "holdfast.toml").chmod(mode)
    check = checks(here("doctor", "--json"))["holdfast.toml"]
    assert check["level"] == level
    assert found in check["found"]


def test_the_mend_for_a_secret_that_others_can_read_mends_it(sound: Here) -> None:
    path = sound.directory / "data" / "service_key"
    path.chmod(0o644)
    check = checks(sound("doctor", "--json"))["service key"]
    assert check["level"] == "fail"
    assert "mode 644" in check["found"]
    subprocess.run(["sh", "-c", check["mend"]], cwd=sound.directory, check=True)
    assert checks(sound("doctor", "--json"))["service key"]["level"] == "ok"


def test_an_empty_secret_is_a_failure(sound: Here) -> None:
    (sound.directory / "data" / "service_key").write_text("\n")
    assert checks(sound("doctor", "--json"))["service key"]["level"] == "fail"


@pytest.mark.parametrize("directory", ["a-file", "a-file/below"])
def test_a_data_directory_that_cannot_be_is_a_failure(directory: str, here: Here) -> None:
    (here.directory / "a-file").write_text("")
    check = checks(here("doctor", "--json", "--data", directory))["data"]
    assert check["level"] == "fail"
    assert "a-file is not a directory" in check["found"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux")
def test_a_data_directory_that_cannot_be_made_is_a_failure_also_for_root(here: Here) -> None:
    check = checks(here("doctor", "--json", "--data", "/proc/x"))["data"]
    assert (check["level"], check["mend"]) == ("fail", "choose another with --data or HOLDFAST_DATA")
    assert "/proc/x cannot be made" in check["found"]


def test_a_data_directory_that_cannot_be_written_to_is_a_failure(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one place that is not really broken: whoever runs this may be root, who may write anywhere."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    check = checks(here("doctor", "--json"))["data"]
    assert check["level"] == "fail"
    assert check["mend"].startswith("sudo chown")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs Linux")
def test_a_place_in_memory_is_a_failure(here: Here) -> None:
    directory = Path(f"/dev/shm/holdfast-test-{os.getpid()}")
    directory.mkdir()
    try:
        check = checks(here("doctor", "--json", "--data", str(directory)))["filesystem"]
    finally:
        shutil.rmtree(directory)
    assert check["level"] == "fail"
    assert "tmpfs" in check["found"]
    assert "HOLDFAST_DATA=" in check["mend"]


@pytest.mark.parametrize(("limit", "level"), [(200, "fail"), (1024, "warn")])
def test_too_few_open_files_are_found(limit: int, level: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (limit, limit))
    check = checks(here("doctor", "--json"))["open files"]
    assert check["level"] == level
    assert f"{limit:,} at once" in check["found"]


def test_the_limit_of_open_files_is_that_of_the_shell(tmp_path: Path) -> None:
    command = f"ulimit -n 300; exec {' '.join(HOLDFAST)} doctor"
    environment = Cli(tmp_path).environment({})
    ran = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert "300 at once" in ran.stdout.decode()
