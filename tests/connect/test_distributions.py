"""The middleware as others install it: a wheel without the engine, and the Node package."""

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from connect_world import Key, claims, publishing

CLIENTS = Path(__file__).parents[2] / "clients"
TIMEOUT_S = 240

SCRIPT = """
import importlib.util, sys
from holdfast_connect import Gatekeeper, Pass, PublishedKeys, Visit
absent = [name for name in ("holdfast", "sqlalchemy", "msgspec") if importlib.util.find_spec(name) is None]
gatekeeper = Gatekeeper("drop", PublishedKeys(sys.argv[1]))
gatekeeper.keys.refresh()
visit = Visit("GET", "/", "", {})
print(absent, gatekeeper.judge(visit, sys.argv[2]).buyer_id, gatekeeper.judge(visit, sys.argv[2] + "x").status)
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built, cwd=CLIENTS / "python-connect")
    [file] = built.glob("holdfast_connect-*.whl")
    return file


@pytest.mark.slow
def test_the_wheel_has_the_middleware_and_nothing_of_the_engine(wheel: Path) -> None:
    files = [name for name in ZipFile(wheel).namelist() if name.endswith(".py")]
    sources = (Path(__file__).parents[2] / "src" / "holdfast" / "connect").glob("*.py")
    assert sorted(files) == sorted(f"holdfast_connect/{source.name}" for source in sources)


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    key = Key("k1")
    with publishing(key) as publisher:
        said = run(python, "-I", "-c", SCRIPT, publisher.url, key.sign(claims()), cwd=tmp_path)
    assert said.strip() == "['holdfast', 'sqlalchemy', 'msgspec'] ada 429"


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.fail("these tests need Node: `make node` installs it (apt-get install nodejs)")
    return found


@pytest.mark.slow
def test_the_node_middleware_passes_its_tests() -> None:
    said = run(node(), "--test", "test/", cwd=CLIENTS / "node-connect")
    assert "# fail 0" in said
    assert "# tests 12" in said
