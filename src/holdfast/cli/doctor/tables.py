"""Checks for both engines: the schema revision, and clocks that ran backwards."""

from sqlalchemy import Connection, func, inspect, select

from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.ledger.access.keys import legacy_keys
from holdfast.ledger.engine.heartbeats import heartbeats_since
from holdfast.ledger.revision import current_revision, is_usable, min_reader, newest_revision
from holdfast.ledger.tables.stock import pools

# Smaller differences come from network or scheduling delays.
CLOCK_WARN_MS = 1_000
# The clock skew accepted in buyer tokens.
CLOCK_FAIL_MS = 30_000
# Processes write every second.
ALIVE_MS = 5_000
# Written by the processes that settle, beside their roles.
PROVIDERS = ("payment_sandbox", "payment_stripe")
UPGRADE = "pip install --upgrade holdfast"
FIX_CLOCK = "sudo timedatectl set-ntp true"


def check_revision(connection: Connection) -> Finding:
    current, newest = current_revision(connection), newest_revision()
    if current == newest:
        return ok("tables", f"at revision {current}, the latest")
    if current is None:
        return warn("tables", "the database is empty; the first start creates the tables", "holdfast migrate")
    if current < newest:
        return warn("tables", f"at revision {current}; the next start upgrades to {newest}", "holdfast migrate")
    found = f"at revision {current}, of a newer Holdfast; this version has {newest}"
    if is_usable(connection):
        return warn("tables", f"{found} and may still use it", UPGRADE)
    return fail("tables", f"{found}; the oldest that may use it has {min_reader(connection) or current}", UPGRADE)


def check_skew(skew_ms: int, of_what: str, fix: str = FIX_CLOCK) -> Finding:
    """The difference between two clocks that should agree."""
    found = f"{of_what}: {abs(skew_ms) / 1000:,.1f} s apart"
    if abs(skew_ms) >= CLOCK_FAIL_MS:
        return fail("clock", found, fix)
    return warn("clock", found, fix) if abs(skew_ms) >= CLOCK_WARN_MS else ok("clock", found)


def check_keys(connection: Connection) -> list[Finding]:
    """Keys from before the scopes `money` and `admin` still refund, credit wallets and make keys."""
    if not is_usable(connection):
        return []
    legacy = legacy_keys(connection)
    if not legacy:
        return []
    names = ", ".join(f"{key.name} ({key.key_id})" for key in legacy)
    found = f"made with `operate` before `money` and `admin` were scopes, and may still do both: {names}"
    return [warn("keys", found, "create new ones with holdfast keys create, then holdfast keys revoke KEY_ID")]


def check_workers(connection: Connection, now_ms: int) -> list[Finding]:
    """Servers that run without background work need a worker somewhere."""
    if not is_usable(connection):
        return []
    alive = heartbeats_since(connection, now_ms - ALIVE_MS)
    if alive and not any(one.roles for one in alive):
        return [fail("worker", "servers are running, but no background work: nothing is settled", "holdfast worker")]
    troubled = {(role, trouble) for one in alive for role, trouble in one.roles.items() if trouble}
    silent = [
        warn("payments", f"{role} does not answer: payments wait", "see Provider down in docs/RUNBOOK.md")
        for role, _ in sorted(troubled)
        if role in PROVIDERS
    ]
    troubles = sorted(f"{role} ({trouble})" for role, trouble in troubled if role not in PROVIDERS)
    if not troubles:
        return silent
    found = f"background work in trouble: {', '.join(troubles)}"
    return [*silent, warn("worker", found, "see the log of that process")]


def check_future(connection: Connection, now_ms: int) -> list[Finding]:
    """A pool's clock never runs backwards: one that is ahead stands still until time catches up."""
    if not inspect(connection).has_table(pools.name):
        return []
    latest = connection.execute(select(func.max(pools.c.decided_at))).scalar_one() or 0
    if latest - now_ms < CLOCK_WARN_MS:
        return []
    found = f"a pool was last used {(latest - now_ms) / 1000:,.0f} s in the future: the clock was set back"
    return [fail("clock", found, f"{FIX_CLOCK}; deadlines do not expire until then")]
