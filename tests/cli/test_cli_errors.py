"""Bad input and bad set-ups: a message that says what to do, the right exit status, and never a traceback."""

import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli_running import Cli, Here, Ran, run_all, stop

pytest_plugins = ("cli_fixtures",)


# An address where nothing listens: the port is reserved.
NOBODY = "postgresql://user:pa55word@127.0.0.1:1/shop"
SETTINGS = [
    ("DATABASE_URL", "pa55word", ["HOLDFAST_DATABASE_URL is not an address", "sqlite:///"]),
    ("DATABASE_URL", "postgresql://u:pa55word@h:port/n", ["HOLDFAST_DATABASE_URL is not an address"]),
    ("DATABASE_URL", "mysql://u:pa55word@h/x", ["mysql:// is not supported", "postgresql://"]),
    ("DATABASE_URL", "sqlite://", ["name a file"]),
    ("DATABASE_URL", "sqlite:///:memory:", ["name a file"]),
    ("BATCH_MAX", "many", ["HOLDFAST_BATCH_MAX"]),
    ("BUYER_SECRET", "pa55word", ["HOLDFAST_BUYER_SECRET", "32 bytes"]),
    ("SERVICE_KEY", "pa55word", ["HOLDFAST_SERVICE_KEY", "hf_"]),
]


@pytest.mark.parametrize(("name", "value", "told"), SETTINGS)
@pytest.mark.parametrize("command", ["pools list", "migrate", "serve", "worker"])
def test_a_setting_that_cannot_work_is_named(command: str, name: str, value: str, told: list[str], here: Here) -> None:
    ran = here(*command.split(), **{name: value})
    assert ran.code == 2
    assert [text for text in told if text not in ran.err] == [], ran.err
    assert "pa55word" not in ran.out + ran.err
    assert list(here.directory.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("data = ]\n", ["holdfast.toml cannot be read", "line 1"]),
        ('line_max = "long"\n', ["line_max in holdfast.toml:"]),
        ('database_url = "mysql://h/x"\n', ["database_url in holdfast.toml:", "mysql:// is not supported"]),
    ],
)
def test_a_broken_holdfast_toml_is_named(text: str, told: list[str], here: Here) -> None:
    (here.directory / "holdfast.toml").write_text(text)
    ran = here("pools", "list")
    assert ran.code == 2
    assert [text for text in told if text not in ran.err] == [], ran.err
    assert "HOLDFAST_" not in ran.err


def test_the_environment_is_named_where_it_overrules_holdfast_toml(here: Here) -> None:
    (here.directory / "holdfast.toml").write_text("line_max = 9\n")
    assert "HOLDFAST_LINE_MAX:" in here("pools", "list", LINE_MAX="long").err
    (here.directory / "holdfast.toml").write_text('line_max = "long"\n')
    doctor = here("doctor", "--json")
    [check] = [check for check in doctor.json["checks"] if check["name"] == "settings"]
    assert check["mend"] == "correct line_max in holdfast.toml"


@pytest.mark.parametrize("command", ["pools list", "pools create x --units 1", "serve", "worker", "migrate"])
def test_a_file_in_place_of_the_data_directory_is_named(command: str, here: Here) -> None:
    (here.directory / "a-file").write_text("")
    ran = here(*command.split(), "--data", "a-file")
    assert ran.code == 2
    assert "a-file is not a directory" in ran.err
    assert "--data" in ran.err


def test_what_is_missing_is_said_with_the_command_that_makes_it(here: Here) -> None:
    ran = here("pools", "restock", "demo", "--units", "1")
    assert ran.code == 1
    assert "there is no pool demo" in ran.err
    assert "holdfast pools create demo --units N" in ran.err


@dataclass(frozen=True)
class Case:
    name: str
    command: str
    told: list[str]
    settings: dict[str, str] = field(default_factory=dict)


CASES = [
    Case("PostgreSQL that is not there", "pools list", ["not available", "holdfast doctor"], {"DATABASE_URL": NOBODY}),
    Case("serving without it", "serve --port 1024", ["not available", "holdfast doctor"], {"DATABASE_URL": NOBODY}),
    Case("working without it", "worker", ["not available", "holdfast doctor"], {"DATABASE_URL": NOBODY}),
    Case(
        "a directory nobody can make",
        "pools create x --units 1 --data /proc/x",
        ["directory /proc/x: ", "holdfast doctor --data /proc/x"],
    ),
    Case("serving from one", "serve --data /proc/x", ["directory /proc/x: ", "holdfast doctor --data /proc/x"]),
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
def test_a_database_that_cannot_be_used_is_named_and_the_doctor_called(case: Case, results: dict[str, Ran]) -> None:
    ran = results[case.name]
    assert ran.code == 1, ran
    assert [text for text in case.told if text not in ran.err] == [], ran.err
    assert "Traceback" not in ran.err
    assert "pa55word" not in ran.out + ran.err
    assert ran.out == ""


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["in front", "in the background"])
def _run_by_a_shell(request: pytest.FixtureRequest) -> Iterator[None]:
    """A shell lets its background jobs ignore Ctrl-C, this test run among them."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_run_by_a_shell")
def test_ctrl_c_ends_a_command_that_waits(tmp_path: Path) -> None:
    """Somebody listens but never answers, as a firewall or a hung server does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/x"
        with Cli(tmp_path, {"DATABASE_URL": url}).started("pools", "list") as waiting:
            connection, _ = silent.accept()
            code, err = stop(waiting, signal.SIGINT)
            connection.close()
    assert code == 130
    assert "Traceback" not in err


def test_a_terminal_that_knows_ascii_only_gets_other_marks(tmp_path: Path) -> None:
    ran = Cli(tmp_path, variables={"PYTHONIOENCODING": "ascii"})("doctor")
    assert ran.code in (0, 1)
    assert ran.err == ""
    assert "+ python" in ran.out
    unmakeable = Cli(tmp_path, variables={"PYTHONIOENCODING": "ascii"})("doctor", "--data", "/proc/x")
    assert "x data" in unmakeable.out
    assert "?" not in unmakeable.out


def test_a_reader_that_hangs_up_is_no_reason_for_a_traceback(tmp_path: Path) -> None:
    with Cli(tmp_path).started("doctor") as writing:
        assert writing.stdout is not None
        writing.stdout.close()
        assert writing.stderr is not None
        assert "Traceback" not in writing.stderr.read()
