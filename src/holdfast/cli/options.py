"""Options that most commands share, and the settings they produce."""

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
        help="Directory for the embedded database and generated keys.  [env var: HOLDFAST_DATA; default: ./data]",
    ),
]


def settings_from(data: Path | None) -> Settings:
    """Load the settings; refuse combinations that cannot work."""
    settings = load_settings(data=data)
    if settings.data.exists() and not settings.data.is_dir():
        raise SettingsError(f"{settings.data} is not a directory; choose another with --data or HOLDFAST_DATA")
    return settings


def hide_secrets(url: str) -> str:
    """A URL without its password and without its options, which may contain another one."""
    if url.startswith("redis"):  # May name several servers, unlike other URLs.
        return re.sub(r"//([^:@/]*):[^@/]*@", r"//\1:***@", url.partition("?")[0])
    try:
        given = make_url(url)
    except (ArgumentError, ValueError):
        return "invalid URL (hidden)"
    return given.set(query=socket_directory(given)).render_as_string(hide_password=True)


def has_password(url: str) -> bool:
    try:
        given = make_url(url)
    except (ArgumentError, ValueError):
        return False
    return given.password is not None or "password" in given.query


def socket_directory(url: URL) -> dict[str, str | tuple[str, ...]]:
    """The only option that locates a database: a directory, or several hosts."""
    return {name: value for name, value in url.query.items() if name == "host"}
