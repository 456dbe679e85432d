"""Errors in settings, under the name that was used: an environment variable, or a key of `holdfast.toml`."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from holdfast.errors import SettingsError

# Looked for in the current directory.
TOML = Path("holdfast.toml")


def explain_setting(error: ErrorDetails) -> str:
    name = "_".join(map(str, error["loc"])).upper()
    return f"HOLDFAST_{name}: {error['msg'].removeprefix('Value error, ')}"


def blame_toml(message: str) -> str:
    """Each line starts with a variable name; replace it with the toml key if the value came from the file."""
    in_environment = {name.upper() for name, value in os.environ.items() if value}
    in_toml = {f"HOLDFAST_{name}".upper(): f"{name} in {TOML}" for name in read_toml()}
    places = {name: place for name, place in in_toml.items() if name not in in_environment}
    return re.sub(r"^HOLDFAST_\w+", lambda name: places.get(name[0], name[0]), message, flags=re.MULTILINE)


def read_toml() -> dict[str, Any]:
    return tomllib.loads(TOML.read_text()) if TOML.exists() else {}


def refuse_renamed(renamed: Mapping[str, str]) -> None:
    """An ignored setting would silently fall back to its default."""
    environment = {name.upper() for name, value in os.environ.items() if value}
    toml = read_toml().keys()
    errors = [
        f"HOLDFAST_{old.upper()} was renamed: use HOLDFAST_{new.upper()} (in {TOML}: {new})"
        for old, new in renamed.items()
        if f"HOLDFAST_{old.upper()}" in environment or old in toml
    ]
    if errors:
        raise SettingsError("\n".join(errors))
