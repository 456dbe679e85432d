"""Run every check."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.access.setting_errors import TOML
from holdfast.cli.doctor import configuration, host
from holdfast.cli.doctor.finding import Finding, Level, ok
from holdfast.cli.doctor.mail import examine_mail
from holdfast.cli.doctor.postgres import examine_postgres
from holdfast.cli.doctor.production import Production, examine_production
from holdfast.cli.doctor.sqlite import examine_sqlite
from holdfast.errors import SettingsError
from holdfast.settings import Settings, load_settings


class Examination(Struct, frozen=True):
    settings: list[configuration.Shown]
    findings: list[Finding]

    @property
    def is_ok(self) -> bool:
        return all(finding.level is not Level.FAIL for finding in self.findings)

    def body(self) -> dict[str, Any]:
        return {
            "ok": self.is_ok,
            "checks": [finding.body() for finding in self.findings],
            "settings": [shown.body() for shown in self.settings],
        }


def examine(data: Path | None, production: Production | None = None) -> Examination:
    sources = configuration.find_sources(data)
    findings = [*configuration.check_toml(sources), *configuration.check_environment(sources)]
    try:
        settings = load_settings(data=data)
    except (SettingsError, OSError) as exc:
        refused = [] if _is_reported(findings) else configuration.explain_invalid(str(exc), sources)
        return Examination([], [*findings, *refused, *_examine_host()])
    shown = configuration.show_settings(settings, sources)
    given = [setting for setting in shown if setting.source != "default"]
    findings.insert(0, ok("settings", f"{len(given)} set, {len(shown) - len(given)} with defaults"))
    findings += configuration.check_buyer_tokens(settings)
    engines = [
        *_examine_database(settings),
        *_examine_redis(settings),
        *_examine_kafka(settings),
        *examine_mail(settings),
    ]
    findings += [*_examine_data(settings), *engines, *_examine_host()]
    return Examination(
        shown, findings if production is None else [*findings, *examine_production(settings, production)]
    )


def _is_reported(findings: list[Finding]) -> bool:
    """Whether the findings already explain why the settings cannot be loaded."""
    return any(finding.name == str(TOML) and finding.level is Level.FAIL for finding in findings)


def _examine_data(settings: Settings) -> list[Finding]:
    return [host.check_data(settings), *host.check_secret_files(settings)]


def _examine_database(settings: Settings) -> list[Finding]:
    return asyncio.run(examine_sqlite(settings) if settings.is_embedded else examine_postgres(settings))


def _examine_redis(settings: Settings) -> list[Finding]:
    if not settings.has_redis:
        return []
    from holdfast.cli.doctor.redis import examine_redis  # noqa: PLC0415 - loads redis-py

    return asyncio.run(examine_redis(settings))


def _examine_kafka(settings: Settings) -> list[Finding]:
    if not settings.has_kafka:
        return []
    from holdfast.cli.doctor.kafka import examine_kafka  # noqa: PLC0415 - loads the client library

    return asyncio.run(examine_kafka(settings))


def _examine_host() -> list[Finding]:
    return [host.check_open_files(), host.check_python()]
