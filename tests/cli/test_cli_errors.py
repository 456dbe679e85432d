"""Bad input and setups: a helpful message, the right exit status, never a traceback."""

import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli_running import Cli, Here, Ran, run_all, stop

from holdfast.settings import RENAMED

pytest_plugins = ("cli_fixtures",)


# Nothing listens here: the port is reserved.
NOBODY = "postgresql://user:pa55word@127.0.0.1:1/shop"
SETTINGS = [
    ("DATABASE_URL", "pa55word", ["HOLDFAST_DATABASE_URL is not a URL", "sqlite:///"]),
    ("DATABASE_URL", "postgresql://u:pa55word@h:port/n", ["HOLDFAST_DATABASE_URL is not a URL"]),
    ("DATABASE_URL", "mysql://u:pa55word@h/x", ["mysql:// is not supported", "postgresql://"]),
    ("DATABASE_URL", "sqlite://", ["name a file"]),
    ("DATABASE_URL", "sqlite:///:memory:", ["name a file"]),
    ("BATCH_MAX", "many", ["HOLDFAST_BATCH_MAX"]),
    ("BUYER_SECRET", "pa55word", ["HOLDFAST_BUYER_SECRET", "32 bytes"]),
    ("SERVICE_KEY", "pa55word", ["HOLDFAST_SERVICE_KEY", "hf_"]),
]


@pytest.mark.parametrize(("name", "value", "expected"), SETTINGS)
@pytest.mark.parametrize("command", ["pools list", "migrate", "serve", "worker"])
def test_a_setting_that_cannot_work_is_named(
    command: str, name: str, value: str, expected: list[str], here: Here
) -> None:
    ran = here(*command.split(), **{name: value})
    assert ran.code == 2
    assert [text for text in expected if text not in ran.err] == [], ran.err
    assert "pa55word" not in ran.out + ran.err
    assert list(here.directory.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data = ]\n", ["holdfast.toml cannot be read", "line 1"]),
        ('queue_max = "long"\n', ["queue_max in holdfast.toml:"]),
        ('database_url = "mysql://h/x"\n', ["database_url in holdfast.toml:", "mysql:// is not supported"]),
    ],
)
def test_a_broken_holdfast_toml_is_named(text: str, expected: list[str], here: Here) -> None:
    (here.directory / "holdfast.toml").write_text(text)
    ran = here("pools", "list")
    assert ran.code == 2
    assert [text for text in expected if text not in ran.err] == [], ran.err
    assert "HOLDFAST_" not in ran.err


def test_the_environment_is_named_if_it_overrides_holdfast_toml(here: Here) -> None:
    (here.directory / "holdfast.toml").write_text("queue_max = 9\n")
    assert "HOLDFAST_QUEUE_MAX:" in here("pools", "list", QUEUE_MAX="long").err
    (here.directory / "holdfast.toml").write_text('queue_max = "long"\n')
    doctor = here("doctor", "--json")
    [check] = [check for check in doctor.json["checks"] if check["name"] == "settings"]
    assert check["fix"] == "correct queue_max in holdfast.toml"


@pytest.mark.parametrize("old", RENAMED)
def test_a_renamed_setting_is_refused_with_its_new_name(old: str, here: Here) -> None:
    new = RENAMED[old]
    ran = here("pools", "list", **{old.upper(): "9"})
    assert ran.code == 2
    assert f"HOLDFAST_{old.upper()} was renamed: use HOLDFAST_{new.upper()}" in ran.err
    assert here("pools", "list", **{old.upper(): ""}).code == 0
    (here.directory / "holdfast.toml").write_text(f"{old} = 9\n")
    ran = here("pools", "list")
    assert ran.code == 2
    assert f"{old} in holdfast.toml was renamed" in ran.err
    assert f"in holdfast.toml: {new}" in ran.err
    found = [check for check in here("doctor", "--json").json["checks"] if old in check["found"]]
    assert [(check["level"], check["fix"]) for check in found] == [("fail", f"rename it to {new}")]


@pytest.mark.parametrize("command", ["pools list", "pools create x --units 1", "serve", "worker", "migrate"])
def test_a_file_in_place_of_the_data_directory_is_named(command: str, here: Here) -> None:
    (here.directory / "a-file").write_text("")
    ran = here(*command.split(), "--data", "a-file")
    assert ran.code == 2
    assert "a-file is not a directory" in ran.err
    assert "--data" in ran.err


def test_a_missing_pool_comes_with_the_command_that_creates_it(here: Here) -> None:
    ran = here("pools", "restock", "demo", "--units", "1")
    assert ran.code == 1
    assert "there is no pool demo" in ran.err
    assert "holdfast pools create demo --units N" in ran.err


@dataclass(frozen=True)
class Case:
    name: str
    command: str
    expected: list[str]
    settings: dict[str, str] = field(default_factory=dict)


NOT_WAITING = {"DATABASE_URL": NOBODY, "START_TIMEOUT_S": "0"}
CASES = [
    Case("PostgreSQL that is not there", "pools list", ["not available", "holdfast doctor"], {"DATABASE_URL": NOBODY}),
    Case("serving without it", "serve --port 1024", ["not available", "holdfast doctor"], NOT_WAITING),
    Case("working without it", "worker", ["not available", "holdfast doctor"], NOT_WAITING),
    Case(
        "a directory nobody can make",
        "pools create x --units 1 --data /proc/x",
        ["directory /proc/x: ", "holdfast doctor --data /proc/x"],
    ),
    Case("serving from one", "serve --data /proc/x", ["directory /proc/x: ", "holdfast doctor --data /proc/x"]),
    Case("serving with several", "serve --workers 2 --data /proc/x", ["directory /proc/x: "]),
    Case("working from one", "worker --data /proc/x", ["directory /proc/x: ", "holdfast doctor --data /proc/x"]),
    Case("a directory below a file", "serve --data file/x", ["directory file/x: ", "holdfast doctor --data file/x"]),
    Case("a damaged database", "pools list --data damaged", ["not a database", "holdfast doctor --data damaged"]),
    Case("a directory for a database", "migrate --data directory", ["unable to open", "directory/holdfast.db"]),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    directory = tmp_path_factory.mktemp("broken")
    (directory / "damaged").mkdir()
    (directory / "file").touch()
    (directory / "damaged" / "holdfast.db").write_text("This is not a database, whatever its name may say. " * 100)
    (directory / "directory" / "holdfast.db").mkdir(parents=True)
    calls = [(Cli(directory, case.settings), case.command.split()) for case in CASES]
    return {case.name: ran for case, ran in zip(CASES, run_all(calls), strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_unusable_database_is_named_with_a_hint_to_doctor(case: Case, results: dict[str, Ran]) -> None:
    ran = results[case.name]
    assert ran.code == 1, ran
    assert [text for text in case.expected if text not in ran.err] == [], ran.err
    assert "Traceback" not in ran.err
    assert "pa55word" not in ran.out + ran.err
    assert ran.out == ""


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["in front", "in the background"])
def _run_by_a_shell(request: pytest.FixtureRequest) -> Iterator[None]:
    """Background jobs of a shell ignore Ctrl-C, possibly this test run too."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_run_by_a_shell")
def test_ctrl_c_stops_a_waiting_command(tmp_path: Path) -> None:
    """A listener that never answers, like a firewall or a hung server."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/x"
        with Cli(tmp_path, {"DATABASE_URL": url}).started("pools", "list") as waiting:
            connection, _ = silent.accept()
            code, err = stop(waiting, signal.SIGINT)
            connection.close()
    assert code == 130
    assert "Traceback" not in err


def test_an_ascii_terminal_gets_plain_marks(tmp_path: Path) -> None:
    ran = Cli(tmp_path, variables={"PYTHONIOENCODING": "ascii"})("doctor")
    assert ran.code in (0, 1)
    assert ran.err == ""
    assert "+ python" in ran.out
    unmakeable = Cli(tmp_path, variables={"PYTHONIOENCODING": "ascii"})("doctor", "--data", "/proc/x")
    assert "x data" in unmakeable.out
    assert "?" not in unmakeable.out


def test_a_closed_pipe_causes_no_traceback(tmp_path: Path) -> None:
    with Cli(tmp_path).started("doctor") as writing:
        assert writing.stdout is not None
        writing.stdout.close()
        assert writing.stderr is not None
        assert "Traceback" not in writing.stderr.read()
