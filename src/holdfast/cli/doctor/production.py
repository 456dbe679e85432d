"""What a machine that takes real money needs besides working: `doctor --production`."""

import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

from msgspec import Struct
from sqlalchemy import Connection, make_url, text

from holdfast.cli.doctor.certificate import check_certificate
from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.cli.doctor.host import WANTED_FILES, nearest
from holdfast.cli.doctor.kernel_clock import check_synchronised
from holdfast.cli.doctor.postgres import psql
from holdfast.errors import EngineError
from holdfast.ledger.engine.opening import open_database
from holdfast.settings import Settings

BACKUPS = Path("/var/lib/holdfast-backups")
# The timer makes one every day.
BACKUP_OLD_H = 26
FSYNCS = 15
FSYNC_SLOW_MS = 10.0
# A server process takes 150 MiB and grows with the queue; the rest is for the page cache of the database.
LEAST_MEMORY_BYTES, WANTED_MEMORY_BYTES = 256 * 1024**2, 1024**3
_LOCAL = ("", "localhost", "127.0.0.1", "::1")
_TLS_MODES = ("require", "verify-ca", "verify-full")
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


class Production(Struct, frozen=True):
    """`url` is the address that buyers use, `backups` the directory of the backups."""

    url: str | None = None
    backups: Path = BACKUPS


def examine_production(settings: Settings, given: Production) -> list[Finding]:
    return [
        check_certificate(given.url),
        *check_connections(settings),
        check_proxies(settings),
        *check_secrets(settings),
        *check_test_settings(settings),
        check_backups(given.backups),
        check_standby(settings),
        check_fsync(settings),
        check_memory(),
        check_files(),
        check_synchronised(),
    ]


def check_connections(settings: Settings) -> Iterator[Finding]:
    """Passwords and buyers' names cross the network to stores on other hosts."""
    if not settings.is_embedded:
        url = make_url(settings.database_url)
        mode = str(url.query.get("sslmode", url.query.get("ssl", "")))
        if _is_remote(url.host) and mode not in _TLS_MODES:
            fix = "add ?sslmode=verify-full to HOLDFAST_DATABASE_URL"
            yield warn("database TLS", f"the connection to {url.host} may be unencrypted", fix)
    host = settings.redis_url.rpartition("@")[2].partition("//")[2].partition("/")[0].rpartition(":")[0]
    if settings.has_redis and not settings.redis_url.startswith("rediss") and _is_remote(host):
        yield warn("redis TLS", f"the connection to {host} is unencrypted", "use rediss:// in HOLDFAST_REDIS_URL")


def _is_remote(host: str | None) -> bool:
    return (host or "") not in _LOCAL and not (host or "").startswith("/")


def check_proxies(settings: Settings) -> Finding:
    networks = [ip_network(part.strip(), strict=False) for part in settings.trusted_proxies.split(",") if part.strip()]
    if not networks:
        found = "none is trusted: behind a proxy all buyers would share one address and its limits"
        return warn("proxies", found, "export HOLDFAST_TRUSTED_PROXIES=127.0.0.1 (the address of your proxy)")
    if any(network.prefixlen == 0 for network in networks):
        found = f"{settings.trusted_proxies}: anyone can claim any address and avoid the limits"
        return fail("proxies", found, "name only your proxies in HOLDFAST_TRUSTED_PROXIES")
    return ok("proxies", f"{settings.trusted_proxies} may name the client's address")


def check_secrets(settings: Settings) -> Iterator[Finding]:
    needed = ["service_key", "signing_key", *([] if settings.buyer_jwks_url else ["buyer_secret"])]
    needed += ["push_key"] if settings.push_contact else []
    generated = [name for name in needed if not getattr(settings, name).get_secret_value()]
    if not generated:
        yield ok("secrets", "all are set, none is generated")
        return
    names = ", ".join(f"HOLDFAST_{name.upper()}" for name in generated)
    if settings.is_embedded:
        found = f"{names}: generated in {settings.data}, and lost with this machine unless backed up"
        yield warn("secrets", found, "keep them in your secret store, and set them in /etc/holdfast/environment")
    else:
        fix = f"set the same {names} on every server, from your secret store"
        yield fail("secrets", f"{names}: generated per machine, so servers refuse one another's tokens", fix)


def check_test_settings(settings: Settings) -> Iterator[Finding]:
    if settings.payment_sandbox_url:
        found = "HOLDFAST_PAYMENT_SANDBOX_URL is set: sales can be paid with play money"
        yield fail("test settings", found, "unset HOLDFAST_PAYMENT_SANDBOX_URL")
    if "_test_" in settings.stripe_api_key.get_secret_value():
        yield fail("test settings", "HOLDFAST_STRIPE_API_KEY is a test key: no card is charged", "use the live key")
    if settings.stripe_api_key.get_secret_value() and not settings.stripe_webhook_secret.get_secret_value():
        found = "HOLDFAST_STRIPE_WEBHOOK_SECRET is not set: Stripe's later changes are only found by polling"
        yield warn("test settings", found, "create the webhook at Stripe and set HOLDFAST_STRIPE_WEBHOOK_SECRET")
    if settings.webhook_private:
        found = "HOLDFAST_WEBHOOK_PRIVATE is on: webhooks can reach your internal network"
        yield warn("test settings", found, "unset HOLDFAST_WEBHOOK_PRIVATE unless your receivers are internal")
    if settings.log_level == "debug":
        yield warn("test settings", "HOLDFAST_LOG_LEVEL=debug: slow, and logs every call", "unset HOLDFAST_LOG_LEVEL")


def check_backups(directory: Path) -> Finding:
    fix = "sudo systemctl enable --now holdfast-backup.timer (docs/BACKUP.md), or name the directory: --backups DIR"
    try:
        made = max((file.stat().st_mtime for file in directory.glob("holdfast-backup-*.tar*")), default=None)
    except OSError as exc:
        return fail("backups", f"{directory} cannot be read: {exc.strerror}", fix)
    if made is None:
        return fail("backups", f"there is none in {directory}", fix)
    hours = (time.time() - made) / 3600
    found = f"the newest in {directory} is {hours:.1f} h old"
    return ok("backups", found) if hours < BACKUP_OLD_H else fail("backups", found, fix)


def check_standby(settings: Settings) -> Finding:
    if settings.is_embedded:
        found = "an embedded database is on one machine: if its disk is lost, sales since the last backup are lost"
        return warn("standby", found, "use PostgreSQL with a synchronous standby (docs/POSTGRESQL.md), or accept it")
    try:
        standbys = asyncio.run(_standbys(settings))
    except EngineError as exc:
        return warn("standby", f"cannot be determined: {exc}", "make PostgreSQL reachable and run this again")
    synchronous = [name for name, state in standbys if state in ("sync", "quorum")]
    if synchronous:
        return ok("standby", f"{', '.join(synchronous)} has every commit before it is acknowledged")
    if standbys:
        found = f"{', '.join(name for name, _ in standbys)} follows asynchronously: a failover can lose sales"
    else:
        found = "none: if the machine of PostgreSQL is lost, sales since the last backup are lost"
    fix = psql(
        settings.database_url, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'", "SELECT pg_reload_conf()"
    )
    return warn("standby", found, fix if standbys else f"set up streaming replication, then: {fix}")


async def _standbys(settings: Settings) -> list[tuple[str, str]]:
    def read(connection: Connection) -> list[tuple[str, str]]:
        rows = connection.execute(text("SELECT application_name, sync_state FROM pg_stat_replication"))
        return [(row.application_name, row.sync_state) for row in rows]

    database = open_database(settings.database_url, connections=2)
    try:
        return await database.read(read)
    finally:
        await database.close()


def check_fsync(settings: Settings) -> Finding:
    """Every batch waits for one. Measured on the disk of the data directory; PostgreSQL's may be another."""
    there = nearest(settings.data)
    try:
        took_ms = _fsync_ms(there)
    except OSError as exc:
        return fail("fsync", f"{there}: {exc.strerror}", "make the data directory writable")
    found = f"{took_ms:.1f} ms at {there} (median of {FSYNCS})"
    if took_ms < FSYNC_SLOW_MS:
        return ok("fsync", found)
    return warn("fsync", f"{found}: every batch waits for it", "use a local SSD with power-loss protection")


def _fsync_ms(directory: Path) -> float:
    took = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        for _ in range(FSYNCS):
            started = time.perf_counter()
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took)


def check_memory() -> Finding:
    free = min((size for size in (_free_of_host(), _free_of_cgroup()) if size is not None), default=None)
    if free is None:
        return warn("memory", "cannot be determined here", "make sure that 1 GiB is free")
    found = f"{free / 1024**3:,.1f} GiB free"
    fix = "stop what else runs here, or use a larger machine (or container limit)"
    if free < LEAST_MEMORY_BYTES:
        return fail("memory", found, fix)
    return warn("memory", found, fix) if free < WANTED_MEMORY_BYTES else ok("memory", found)


def _free_of_host() -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _free_of_cgroup() -> int | None:
    """None without a limit."""
    try:
        return int((_CGROUP / "memory.max").read_text()) - int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return None


def check_files() -> Finding:
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= WANTED_FILES:
        return ok("open files", "no limit" if limit == resource.RLIM_INFINITY else f"{limit:,} open at once")
    fix = f"LimitNOFILE={WANTED_FILES} in the systemd unit (deploy/systemd has it), or ulimit -n {WANTED_FILES}"
    return warn("open files", f"{limit:,} open at once; a crowd needs {WANTED_FILES:,}", fix)
