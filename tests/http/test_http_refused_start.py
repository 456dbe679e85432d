"""A server that cannot be safe or useful does not start: exit status 2, and a text that says what to do."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from http_serving import Server, run_holdfast, settings_of

from holdfast.bench.engines import free_port

pytest_plugins = ("http_fixtures",)


def serve(directory: Path, settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    port = () if "--port" in arguments else ("--port", str(free_port()))
    environment = settings_of(directory, settings)
    return run_holdfast("serve", *port, *arguments, directory=directory, environment=environment)


WRONG = [
    ("BUYER_SECRET", "x" * 31, ["HOLDFAST_BUYER_SECRET", "32 bytes"]),
    ("SERVICE_KEY", "x" * 40, ["HOLDFAST_SERVICE_KEY", "hf_"]),
    ("SERVICE_KEY", "hf_short", ["HOLDFAST_SERVICE_KEY", "16 characters"]),
    ("DATABASE_URL", "mysql://localhost/x", ["HOLDFAST_DATABASE_URL", "postgresql://"]),
    ("DATABASE_URL", "nonsense", ["HOLDFAST_DATABASE_URL"]),
    ("BATCH_MAX", "many", ["HOLDFAST_BATCH_MAX"]),
]
Refusals = dict[tuple[str, str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """What became of a server with each wrong setting, all started together."""
    wrong = [(setting, value) for setting, value, _ in WRONG]
    with ThreadPoolExecutor() as threads:
        ran = threads.map(lambda given: serve(tmp_path_factory.mktemp("wrong"), {given[0]: given[1]}), wrong)
        return dict(zip(wrong, ran, strict=True))


@pytest.mark.parametrize(("setting", "value", "told"), WRONG)
def test_a_setting_that_is_wrong_is_named(refusals: Refusals, setting: str, value: str, told: list[str]) -> None:
    ran = refusals[setting, value]
    assert ran.returncode == 2, ran.stderr
    assert [text for text in told if text not in ran.stderr] == []
    assert "Traceback" not in ran.stderr
    if setting in ("BUYER_SECRET", "SERVICE_KEY"):
        assert value not in ran.stderr, "a secret that is wrong is a secret all the same"


def test_several_workers_need_postgresql(tmp_path: Path) -> None:
    ran = serve(tmp_path, {}, "--workers", "2")
    assert ran.returncode == 2
    assert "postgresql://" in ran.stderr


def test_a_second_server_on_the_same_file_is_told_what_to_do(embedded: Server) -> None:
    ran = run_holdfast(
        "serve", "--port", str(free_port()), directory=embedded.directory, environment=embedded.environment
    )
    assert ran.returncode == 2
    assert "postgresql://" in ran.stderr
    assert str(embedded.process.pid) in ran.stderr
    assert embedded.is_ready()


def test_a_port_that_is_taken_is_named(embedded: Server, tmp_path: Path) -> None:
    ran = serve(tmp_path, {}, "--port", str(embedded.port))
    assert ran.returncode == 2
    assert str(embedded.port) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_database_that_cannot_be_reached_is_a_failure_and_not_a_mistake(tmp_path: Path) -> None:
    ran = serve(tmp_path, {"DATABASE_URL": f"postgresql://user:pa55word@127.0.0.1:{free_port()}/nowhere"})
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "pa55word" not in ran.stderr
