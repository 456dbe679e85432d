"""Wrong use is detected before anything is opened: exit status 2 and a helpful message."""

import pytest
from cli_running import Here

pytest_plugins = ("cli_fixtures",)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", ["Usage: holdfast [OPTIONS] COMMAND"]),
        ("pools", ["Usage: holdfast pools", "create"]),
        ("srve", ["Did you mean 'serve'?"]),
        ("pools creat x", ["Did you mean 'create'?"]),
        ("pools list --jason", ["--jason"]),
        ("pools create demo", ["--units"]),
        ("pools create demo --units many", ["Invalid value for '--units': must be a valid integer\n"]),
        ("pools create demo --units -1", ["Invalid value for '--units': must be greater than or equal to 0\n"]),
        ("pools create demo --units 1 --per-owner-limit 0", ["--per-owner-limit"]),
        ("pools create <x> --units 1", ["'<x>' is not a valid SKU ID", "letters, digits"]),
        ("pools show <x>", ["'<x>' is not a valid SKU ID"]),
        ("pools show \udcff", ["not valid UTF-8"]),
        ("pools restock demo --units 99999999999999999999", ["at most 1,000,000,000"]),
        ("keys create --name x", ["--scope"]),
        (
            "keys create --name x --scope everything",
            ["'--scope': 'everything' is not one of 'read', 'inventory', 'sales', 'operate', 'money', 'admin'"],
        ),
        ("keys create --name \x1b[31m --scope sales", ["--name must be", "printable"]),
        ("keys revoke", ["KEY_ID"]),
        ("reservations show", ["RESERVATION_ID"]),
        ("serve --port 0", ["--port"]),
        ("serve --port 65536", ["--port"]),
        ("serve --host nowhere.invalid", ["cannot listen on nowhere.invalid:8000", "--host"]),
        ("doctor --verbose", ["--verbose"]),
    ],
)
def test_wrong_use_is_explained(command: str, expected: list[str], here: Here) -> None:
    ran = here(*command.split())
    assert ran.code == 2
    assert [text for text in expected if text not in ran.err] == [], ran.err
    assert ran.out == ""
