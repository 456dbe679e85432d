"""The schema of a log line has the fields that the code logs, and no others."""

import ast
from collections.abc import Iterator
from pathlib import Path

from holdfast.lab.log_fields import FIELDS

SOURCE = Path(__file__).parents[2] / "src" / "holdfast"
LEVELS = {"debug", "info", "warning", "error", "exception"}
# Rendered by the logger as `exception`.
NO_FIELD = {"exc_info"}
# Of runtime/log.py itself.
OF_WARNINGS = {"kind", "text", "at"}


def logged() -> Iterator[str]:
    """By servers, workers and commands; programs of `lab` have a log of their own."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if SOURCE / "lab" not in path.parents and path.name != "log.py" and ("log." in text or "log_failure" in text):
            yield from _names(path, ast.parse(text))


def _names(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_logging(node.func):
            for given in node.keywords:
                assert given.arg is not None, f"{path}:{node.lineno} does not show which fields it has"
                yield given.arg


def _is_logging(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id == "log_failure"
    if not isinstance(called, ast.Attribute) or called.attr not in LEVELS:
        return False
    return ast.unparse(called.value) == "log"


def test_every_field_that_is_logged_is_in_the_schema_and_nothing_else_is() -> None:
    assert set(logged()) - NO_FIELD | OF_WARNINGS == FIELDS.keys()
