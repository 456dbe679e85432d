"""Settings: which are set and where, and which have no effect."""

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import SecretStr

from holdfast.access.setting_errors import TOML
from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.cli.options import hide_secrets
from holdfast.settings import RENAMED, Settings

PREFIX = "HOLDFAST_"
_NAMES = list(Settings.model_fields)
# A renamed setting has its own finding, because it prevents the start.
_UNDERSTOOD = {*_NAMES, *RENAMED}
_SECRETS = [name for name, field in Settings.model_fields.items() if field.annotation is SecretStr]


class Shown(Struct, frozen=True):
    """A setting with its secret hidden."""

    name: str
    value: str
    source: str

    def body(self) -> dict[str, str]:
        return {"name": self.name, "value": self.value, "source": self.source}


class Sources(Struct, frozen=True):
    """Where settings were given, as far as each source is readable."""

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
        if name == "smtp_url" and not value.get_secret_value():
            return ""
        return "set (hidden)" if value.get_secret_value() else f"generated, in {settings.data / name}"
    return hide_secrets(value) if name.endswith("url") and value else str(value)


def check_environment(sources: Sources) -> list[Finding]:
    unknown = sorted(sources.environment - _UNDERSTOOD)
    return [_unknown(f"{PREFIX}{name.upper()}", name, "environment") for name in unknown]


def check_buyer_tokens(settings: Settings) -> list[Finding]:
    """An auth service signs for many services with the same published keys."""
    if not settings.buyer_jwks_url or settings.buyer_audience:
        return []
    found = "buyers' tokens are accepted whatever service they were issued for"
    return [warn("buyer_audience", found, f"export {PREFIX}BUYER_AUDIENCE=… (the `aud` of your buyers' tokens)")]


def check_toml(sources: Sources) -> list[Finding]:
    if not TOML.exists():
        return []
    try:
        tomllib.loads(TOML.read_text())
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        return [fail(str(TOML), f"cannot be read: {reason}", f"correct or remove {TOML.resolve()}")]
    findings = [_unknown(name, name, str(TOML)) for name in sorted(sources.toml.keys() - _UNDERSTOOD)]
    return [*findings, *_check_toml_mode(sources)] or [ok(str(TOML), f"{len(sources.toml)} settings")]


def _check_toml_mode(sources: Sources) -> list[Finding]:
    holds_secret = sources.toml.keys() & {*_SECRETS, "database_url"}
    if not holds_secret or not TOML.stat().st_mode & 0o077:
        return []
    found = f"holds {' and '.join(sorted(holds_secret))}, but other users can read it"
    return [fail(str(TOML), found, f"chmod 600 {TOML.resolve()}")]


def _unknown(given: str, name: str, place: str) -> Finding:
    """Most likely a typo: nothing reads it, and the default is used."""
    close = get_close_matches(name.lower(), _NAMES, n=1, cutoff=0.75)
    if not close:
        return warn(place, f"{given} is not a setting of this version", f"remove {given}")
    meant = close[0] if place == str(TOML) else f"{PREFIX}{close[0].upper()}"
    fix = f"rename it to {meant}" if place == str(TOML) else f'export {meant}="${given}"; unset {given}'
    return warn(place, f"{given} is not a setting; did you mean {meant}?", fix)


def explain_invalid(message: str, sources: Sources) -> list[Finding]:
    """One finding per rejected setting."""
    return [fail("settings", line, _where_to_correct(line, sources)) for line in message.splitlines()]


def _where_to_correct(line: str, sources: Sources) -> str:
    name = line.partition(":")[0].partition(" ")[0].removeprefix(PREFIX).lower()
    if name in RENAMED:
        return f"rename it to {RENAMED[name] if sources.of(name) == str(TOML) else PREFIX + RENAMED[name].upper()}"
    if name not in _NAMES:
        return "correct this setting"
    source = sources.of(name)
    return f"correct {name} in {TOML}" if source == str(TOML) else f"correct {source}"
