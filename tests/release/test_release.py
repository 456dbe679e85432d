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


@pytest.fixture
def tree(release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the files that have the version, where building takes no time."""
    files = {
        "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- New.\n",
        "src/holdfast/__init__.py": '__version__ = "0.1.0"\n',
        "clients/typescript/package.json": '{"version": "0.1.0", "devDependencies": {"x": {"version": "9"}}}\n',
        "clients/typescript/package-lock.json": '{"version": "0.1.0"}\n',
        ".gitignore": "dist\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    changelog, module, *packages = (tmp_path / name for name in list(files)[:4])
    places = {"ROOT": tmp_path, "CHANGELOG": changelog, "MODULE": module, "PACKAGES": packages}
    for name, place in places.items():
        monkeypatch.setattr(release, name, place)
    monkeypatch.setattr(release, "build", lambda directory: [directory / "holdfast.whl"])
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.com")
    release.run("git", "init", "--quiet")
    release.run("git", "add", "--all")
    release.run("git", "commit", "--quiet", "--message", "before")
    return tmp_path


def test_a_release_is_one_commit_and_a_tag_with_the_version_everywhere(release: ModuleType, tree: Path) -> None:
    release.release("1.2.3")
    assert "## 1.2.3 (" in (tree / "CHANGELOG.md").read_text()
    assert release.MODULE.read_text() == '__version__ = "1.2.3"\n'
    assert [json.loads(file.read_text())["version"] for file in release.PACKAGES] == ["1.2.3", "1.2.3"]
    assert release.run("git", "log", "-1", "--format=%s %D").strip().startswith("release: 1.2.3 HEAD")
    assert release.run("git", "tag", "--points-at", "HEAD").split() == ["v1.2.3"]
    assert release.run("git", "status", "--porcelain") == ""
    with pytest.raises(SystemExit, match=r"a tag v1\.2\.3 already"):
        release.release("1.2.3")


def test_a_release_that_cannot_be_built_changes_nothing(
    release: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_directory: Path) -> None:
        raise SystemExit("not built")

    monkeypatch.setattr(release, "build", fail)
    with pytest.raises(SystemExit, match="not built"):
        release.release("1.2.3")
    assert (release.run("git", "status", "--porcelain"), release.run("git", "tag")) == ("", "")
    assert release.MODULE.read_text() == '__version__ = "0.1.0"\n'
    (tree / "new").touch()
    with pytest.raises(SystemExit, match="not committed"):
        release.release("1.2.3")
    with pytest.raises(SystemExit, match="is not a version"):
        release.release("next")


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
