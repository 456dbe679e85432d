"""Wrong use, found before anything is opened: exit status 2, and words that help."""

import pytest
from cli_running import Here

pytest_plugins = ("cli_fixtures",)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("", ["Usage: holdfast [OPTIONS] COMMAND"]),
        ("pools", ["Usage: holdfast pools", "create"]),
        ("srve", ["Did you mean 'serve'?"]),
        ("pools creat x", ["Did you mean 'create'?"]),
        ("pools list --jason", ["--jason"]),
        ("pools create demo", ["--units"]),
        ("pools create demo --units many", ["--units", "integer"]),
        ("pools create demo --units -1", ["--units"]),
        ("pools create demo --units 1 --per-owner-limit 0", ["--per-owner-limit"]),
        ("pools create <x> --units 1", ["'<x>' is not a SKU id", "letters, digits"]),
        ("pools show <x>", ["'<x>' is not a SKU id"]),
        ("pools show \udcff", ["not valid UTF-8"]),
        ("pools restock demo --units 99999999999999999999", ["at most 1,000,000,000"]),
        ("keys create --name x", ["--scope"]),
        ("keys create --name x --scope everything", ["'inventory', 'sales', 'operate'"]),
        ("keys create --name \x1b[31m --scope sales", ["--name must be", "printable"]),
        ("keys revoke", ["KEY_ID"]),
        ("reservations show", ["RESERVATION_ID"]),
        ("serve --port 0", ["--port"]),
        ("serve --port 65536", ["--port"]),
        ("serve --workers 2", ["--workers needs PostgreSQL", "HOLDFAST_DATABASE_URL"]),
        ("serve --host nowhere.invalid", ["cannot listen on nowhere.invalid:8000", "--host"]),
        ("doctor --verbose", ["--verbose"]),
    ],
)
def test_wrong_use_is_explained(command: str, told: list[str], here: Here) -> None:
    ran = here(*command.split())
    assert ran.code == 2
    assert [text for text in told if text not in ran.err] == [], ran.err
    assert ran.out == ""
