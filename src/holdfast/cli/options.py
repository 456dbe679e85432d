"""What most commands take, and the settings that come of it."""

import re
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from holdfast.errors import SettingsError
from holdfast.settings import Settings, load_settings

Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory of the embedded database and generated keys.  [env var: HOLDFAST_DATA; default: ./data]",
    ),
]


def settings_from(data: Path | None) -> Settings:
    """The settings, refused where it is plain that they cannot work."""
    settings = load_settings(data=data)
    if settings.data.exists() and not settings.data.is_dir():
        raise SettingsError(f"{settings.data} is not a directory; choose another with --data or HOLDFAST_DATA")
    return settings


def hide_secrets(url: str) -> str:
    """An address without its password, and without its options, among which another may stand."""
    if url.startswith("redis"):  # May name several servers, which no other address does.
        return re.sub(r"//([^:@/]*):[^@/]*@", r"//\1:***@", url.partition("?")[0])
    try:
        given = make_url(url)
    except (ArgumentError, ValueError):
        return "not an address (hidden)"
    return given.set(query=socket_directory(given)).render_as_string(hide_password=True)


def socket_directory(url: URL) -> dict[str, str]:
    """The one option that says where a database is."""
    return {name: value for name, value in url.query.items() if name == "host" and isinstance(value, str)}
