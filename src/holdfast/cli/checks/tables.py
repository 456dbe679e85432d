"""What both engines are asked alike: the revision of their tables, and whether time has run backwards."""

from sqlalchemy import Connection, func, inspect, select

from holdfast.cli.checks.finding import Finding, fail, ok, warn
from holdfast.ledger.migrate import current_revision, newest_revision
from holdfast.ledger.tables import pools

# Less than this is a network's or a scheduler's doing, not a wrong clock.
CLOCK_WARN_MS = 1_000
# Buyers' tokens are accepted this much out of step (http/identity.py); beyond it they are refused.
CLOCK_FAIL_MS = 30_000
MEND_CLOCK = "sudo timedatectl set-ntp true"


def check_revision(connection: Connection) -> Finding:
    current, newest = current_revision(connection), newest_revision()
    if current == newest:
        return ok("tables", f"at revision {current}, the newest this version knows")
    if current is None:
        return warn("tables", "the database is empty; the first start makes the tables", "holdfast migrate")
    if current < newest:
        return warn("tables", f"at revision {current}; the next start upgrades to {newest}", "holdfast migrate")
    found = f"at revision {current}, made by a newer Holdfast; this version knows up to {newest}"
    return fail("tables", found, "pip install --upgrade holdfast")


def check_skew(skew_ms: int, of_what: str, mend: str = MEND_CLOCK) -> Finding:
    """How far two clocks are apart that should be together."""
    found = f"{of_what}: {abs(skew_ms) / 1000:,.1f} s apart"
    if abs(skew_ms) >= CLOCK_FAIL_MS:
        return fail("clock", found, mend)
    return warn("clock", found, mend) if abs(skew_ms) >= CLOCK_WARN_MS else ok("clock", found)


def check_future(connection: Connection, now_ms: int) -> list[Finding]:
    """A pool's clock never runs backwards, so one that is ahead stands still until time has caught up with it."""
    if not inspect(connection).has_table(pools.name):
        return []
    latest = connection.execute(select(func.max(pools.c.decided_at))).scalar_one() or 0
    if latest - now_ms < CLOCK_WARN_MS:
        return []
    found = f"a pool was last used {(latest - now_ms) / 1000:,.0f} s in the future: the clock was set back"
    return [fail("clock", found, f"{MEND_CLOCK}; deadlines stand still until then")]
