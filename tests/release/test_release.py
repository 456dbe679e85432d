"""A release builds, installs into a clean environment, and works there."""

import hashlib
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from http_serving import settings_of, started

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_changelog_gets_the_version_and_a_new_empty_section(release: ModuleType) -> None:
    text = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.1.0\n\n- Old.\n"
    assert release.with_version(text, "0.2.0", "2030-01-31") == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2030-01-31)\n\n- New.\n\n## 0.1.0\n\n- Old.\n"
    )


@pytest.mark.parametrize("text", ["# Changelog\n", "## Unreleased\n", "## Unreleased\n\n## 0.1.0\n\n- Old.\n"])
def test_there_is_no_release_without_changes(release: ModuleType, text: str) -> None:
    with pytest.raises(SystemExit):
        release.with_version(text, "0.2.0", "2030-01-31")


@pytest.mark.slow
def test_a_clean_environment_installs_the_wheel_and_the_sdist_and_serves(tmp_path: Path) -> None:
    dist, venv = tmp_path / "dist", tmp_path / "venv"
    _run(sys.executable, ROOT / "tools" / "release.py", "--build", dist)
    [wheel], [sdist], [sbom] = (list(dist.glob(kind)) for kind in ("*.whl", "*.tar.gz", "*.cdx.json"))
    _check_papers(dist, sbom)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"holdfast/client/types/__init__.py", "holdfast/py.typed"} <= set(names)
    assert any(name.endswith(".lua") for name in names)

    _run(sys.executable, "-m", "venv", venv)
    pip = (venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, "--require-hashes", "-r", ROOT / "requirements.txt")
    for built in (sdist, wheel):
        _run(*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", built)
        assert "holdfast" in _run(venv / "bin" / "holdfast", "--version")
    _run(venv / "bin" / "pip", "check")

    serve = (str(venv / "bin" / "holdfast"), "serve")
    with pytest.MonkeyPatch.context() as patch:
        # What is installed, and not this tree.
        patch.delenv("PYTHONPATH", raising=False)
        (tmp_path / "server").mkdir()
        with started(tmp_path / "server", command=serve) as server:
            use = f"from holdfast.client import Client; print(Client({server.url!r}).live().status)"
            environment = settings_of(tmp_path, {})
            python = [str(venv / "bin" / "python"), "-c", use]
            said = subprocess.run(python, env=environment, capture_output=True, text=True, timeout=60, check=False)
            assert said.stdout.strip() == "live", said.stderr
            assert server.stop() == 0


def _check_papers(dist: Path, sbom: Path) -> None:
    lines = [line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    assert sbom.name in sums
    assert all(hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())
    components = {one["name"] for one in json.loads(sbom.read_text())["components"]}
    assert {"msgspec", "sqlalchemy", "httpx"} <= components
    stated = json.loads((dist / "provenance.json").read_text())
    assert {one["name"] for one in stated["subject"]} == set(sums)


def _run(*command: str | Path) -> str:
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
