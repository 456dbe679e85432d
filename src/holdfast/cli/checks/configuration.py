"""Settings: which are set and where, and what was set in vain."""

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import SecretStr

from holdfast.cli.checks.finding import Finding, fail, ok, warn
from holdfast.cli.options import hide_secrets
from holdfast.settings import TOML, Settings

PREFIX = "HOLDFAST_"
_NAMES = list(Settings.model_fields)
_SECRETS = [name for name, field in Settings.model_fields.items() if field.annotation is SecretStr]


class Shown(Struct, frozen=True):
    """A setting as it may be shown: secrets are hidden."""

    name: str
    value: str
    source: str

    def body(self) -> dict[str, str]:
        return {"name": self.name, "value": self.value, "source": self.source}


class Sources(Struct, frozen=True):
    """Where settings were given, each place as far as it can be read."""

    options: frozenset[str]
    environment: frozenset[str]
    toml: dict[str, Any]

    def of(self, name: str) -> str:
        if name in self.options:
            return f"--{name}"
        if name in self.environment:
            return f"{PREFIX}{name.upper()}"
        return str(TOML) if name in self.toml else "default"


def find_sources(data: Path | None) -> Sources:
    given = frozenset(name[len(PREFIX) :].lower() for name in os.environ if name.upper().startswith(PREFIX))
    try:
        toml = tomllib.loads(TOML.read_text()) if TOML.exists() else {}
    except (OSError, ValueError):
        toml = {}
    return Sources(frozenset({"data"} if data is not None else ()), given, toml)


def show_settings(settings: Settings, sources: Sources) -> list[Shown]:
    return [Shown(name, _value(settings, name), sources.of(name)) for name in _NAMES]


def _value(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if name in _SECRETS:
        return "set (hidden)" if value.get_secret_value() else f"generated, in {settings.data / name}"
    return hide_secrets(value) if name.endswith("url") and value else str(value)


def check_environment(sources: Sources) -> list[Finding]:
    unknown = sorted(sources.environment - set(_NAMES))
    return [_in_vain(f"{PREFIX}{name.upper()}", name, "environment") for name in unknown]


def check_toml(sources: Sources) -> list[Finding]:
    if not TOML.exists():
        return []
    try:
        tomllib.loads(TOML.read_text())
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        return [fail(str(TOML), f"cannot be read: {reason}", f"correct {TOML.resolve()}, or move it away")]
    findings = [_in_vain(name, name, str(TOML)) for name in sorted(sources.toml.keys() - set(_NAMES))]
    return [*findings, *_check_toml_mode(sources)] or [ok(str(TOML), f"{len(sources.toml)} settings")]


def _check_toml_mode(sources: Sources) -> list[Finding]:
    holds_secret = sources.toml.keys() & {*_SECRETS, "database_url"}
    if not holds_secret or not TOML.stat().st_mode & 0o077:
        return []
    found = f"holds {' and '.join(sorted(holds_secret))}, and others on this machine can read it"
    return [fail(str(TOML), found, f"chmod 600 {TOML.resolve()}")]


def _in_vain(given: str, name: str, place: str) -> Finding:
    """Something was set that nothing reads: most likely a typing error, and the default is used instead."""
    close = get_close_matches(name.lower(), _NAMES, n=1, cutoff=0.75)
    if not close:
        return warn(place, f"{given} is not a setting of this version", f"remove {given}")
    meant = close[0] if place == str(TOML) else f"{PREFIX}{close[0].upper()}"
    mend = f"rename it to {meant}" if place == str(TOML) else f'export {meant}="${given}"; unset {given}'
    return warn(place, f"{given} is not a setting; did you mean {meant}?", mend)


def explain_invalid(message: str, sources: Sources) -> list[Finding]:
    """One finding for each setting that was refused."""
    return [fail("settings", line, _where_to_correct(line, sources)) for line in message.splitlines()]


def _where_to_correct(line: str, sources: Sources) -> str:
    name = line.partition(":")[0].partition(" ")[0].removeprefix(PREFIX).lower()
    if name not in _NAMES:
        return "correct the setting this is about"
    source = sources.of(name)
    return f"correct {name} in {TOML}" if source == str(TOML) else f"correct {source}"
