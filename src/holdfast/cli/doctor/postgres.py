"""PostgreSQL: whether it is reachable, durable and has enough connections."""

import shlex
import time

from sqlalchemy import URL, Connection, make_url, text

from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.cli.doctor.mark import examine_mark
from holdfast.cli.doctor.tables import check_future, check_keys, check_revision, check_skew, check_workers
from holdfast.cli.options import hide_secrets, socket_directory
from holdfast.errors import EngineError
from holdfast.ledger.engine.database import Database
from holdfast.ledger.engine.limits import LIMITS
from holdfast.ledger.engine.opening import open_database
from holdfast.settings import Settings

LEAST_POSTGRES = 13
# Settings that must be on for a commit to survive a power loss, and what happens if they are off.
_DURABILITY = {
    "fsync": "a host crash can corrupt the database",
    "synchronous_commit": "an acknowledged reservation can be lost in a power failure",
    "full_page_writes": "a crash can leave torn pages, unless the storage prevents it (ZFS, Aurora)",
}


async def examine_postgres(settings: Settings) -> list[Finding]:
    url = settings.database_url
    try:
        database = open_database(url, connections=settings.database_connections)
    except Exception as exc:
        return [fail("database", f"the URL is invalid: {exc}", "correct HOLDFAST_DATABASE_URL")]
    try:
        found = await database.read(lambda connection: _look_inside(connection, database, settings))
        return [*found, *await examine_mark(settings, database)]
    except EngineError as exc:
        return [fail("database", str(exc), _how_to_reach(exc.__cause__, url))]
    except Exception as exc:  # For example an option that the driver does not know.
        return [fail("database", f"cannot be opened: {exc}", "correct HOLDFAST_DATABASE_URL")]
    finally:
        await database.close()


def _look_inside(connection: Connection, database: Database, settings: Settings) -> list[Finding]:
    return [
        *check_server(connection, settings.database_url),
        check_revision(connection),
        *check_rights(connection, settings.database_url),
        *check_durability(connection, settings.database_url),
        check_limits(connection, settings.database_url),
        *check_clock(connection, database),
        check_connections(connection, settings),
    ]


def _how_to_reach(cause: BaseException | None, url: str) -> str:
    parsed = make_url(url)
    cause = getattr(cause, "orig", None) or cause
    names = {type(cause).__name__, type(getattr(cause, "__cause__", None)).__name__}
    if names & {"InvalidCatalogNameError"}:
        return psql(url, f'CREATE DATABASE "{parsed.database}"', database="postgres")
    if names & {"InvalidPasswordError", "InvalidAuthorizationSpecificationError"}:
        return "correct the user and password in HOLDFAST_DATABASE_URL"
    if names & {"InvalidSQLStatementNameError", "DuplicatePreparedStatementError"}:
        return "PgBouncer mixes up prepared statements: add ?statement_cache_size=0 to HOLDFAST_DATABASE_URL"
    if names & {"InsufficientPrivilegeError"}:
        return f'run as the owner of the tables: GRANT ALL ON ALL TABLES IN SCHEMA public TO "{parsed.username}"'
    return f"start PostgreSQL or correct HOLDFAST_DATABASE_URL; try: pg_isready -d {_shown(url)}"


def _shown(url: str, database: str | None = None) -> str:
    """The URL for psql, without the password, which would stay in the shell history."""
    given = make_url(url)
    place = given.host, given.port, database or given.database, socket_directory(given)
    return shlex.quote(URL.create("postgresql", given.username, None, *place).render_as_string())


def psql(url: str, *statements: str, database: str | None = None) -> str:
    """The command that runs these statements."""
    return " ".join(["psql", _shown(url, database), *(f"-c {shlex.quote(statement)}" for statement in statements)])


def check_server(connection: Connection, url: str) -> list[Finding]:
    started = time.perf_counter()
    connection.execute(text("SELECT 1"))
    took_ms = (time.perf_counter() - started) * 1000
    number, version = connection.execute(
        text("SELECT current_setting('server_version_num')::int, current_setting('server_version')")
    ).one()
    reached = ok("database", f"{hide_secrets(url)}, answers in {took_ms:.1f} ms")
    if number < LEAST_POSTGRES * 10_000:
        fix = f"upgrade PostgreSQL to {LEAST_POSTGRES} or newer"
        return [reached, fail("engine", f"PostgreSQL {version}; {LEAST_POSTGRES} or newer is needed", fix)]
    return [reached, ok("engine", f"PostgreSQL {version}")]


def check_rights(connection: Connection, url: str) -> list[Finding]:
    """Whether we may write and create tables."""
    standby, read_only, encoding, schema, role = connection.execute(
        text(
            "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', "
            "current_setting('server_encoding'), current_schema(), current_user"
        )
    ).one()
    if standby:
        return [fail("rights", "this is a read-only standby", "use the primary in HOLDFAST_DATABASE_URL")]
    if read_only:
        fix = psql(url, f'ALTER DATABASE "{make_url(url).database}" RESET default_transaction_read_only')
        return [fail("rights", "transactions are read-only by default", fix)]
    if encoding != "UTF8":
        return [fail("rights", f"the encoding is {encoding}, not UTF8", "create the database with ENCODING 'UTF8'")]
    may_create = (
        schema and connection.execute(text("SELECT has_schema_privilege(:s, 'CREATE')"), {"s": schema}).scalar()
    )
    if not may_create:
        fix = psql(url, f'GRANT CREATE ON SCHEMA "{schema or "public"}" TO "{role}"')
        return [fail("rights", f"{role} may not create tables in the schema {schema or 'public'}", fix)]
    return []


def check_durability(connection: Connection, url: str) -> list[Finding]:
    rows = connection.execute(
        text("SELECT name, setting, source FROM pg_settings WHERE name = ANY(:names)"), {"names": list(_DURABILITY)}
    )
    off = {row.name: row.source for row in rows if row.setting == "off"}
    if not off:
        return [
            ok("durability", f"{', '.join(_DURABILITY)} are on: reservations are on disk before they are acknowledged")
        ]
    role = connection.execute(text("SELECT current_user")).scalar_one()
    return [_not_durable(name, _how_to_set(name, source, url, role)) for name, source in off.items()]


def _not_durable(name: str, fix: str) -> Finding:
    # Some storage makes full_page_writes unnecessary.
    level = warn if name == "full_page_writes" else fail
    return level("durability", f"{name} is off: {_DURABILITY[name]}", fix)


def _how_to_set(name: str, source: str, url: str, role: str) -> str:
    """Reset the setting where it was set, because the more specific place wins."""
    database = make_url(url).database or role
    places = {
        "database": f'ALTER DATABASE "{database}" RESET {name}',
        "user": f'ALTER ROLE "{role}" RESET {name}',
        "database user": f'ALTER ROLE "{role}" IN DATABASE "{database}" RESET {name}',
    }
    if source in places:
        return psql(url, places[source])
    if source == "command line":
        return f"start PostgreSQL without {name}=off on its command line"
    if source in ("client", "session"):
        return f"remove {name} from HOLDFAST_DATABASE_URL"
    return psql(url, f"ALTER SYSTEM SET {name} = on", "SELECT pg_reload_conf()")


def check_limits(connection: Connection, url: str) -> Finding:
    """Whether the limits of our sessions reach the server: a pooler may have dropped them."""
    rows = connection.execute(
        text("SELECT name, source FROM pg_settings WHERE name = ANY(:names) AND setting = '0'"), {"names": list(LIMITS)}
    )
    unlimited = {row.name: row.source for row in rows}
    if not unlimited:
        return ok("limits", "locks of a lost server are released within seconds")
    found = f"{', '.join(unlimited)} {'is' if len(unlimited) == 1 else 'are'} 0: a lost server can block others"
    if "client" in unlimited.values():
        return warn("limits", found, "remove the option from HOLDFAST_DATABASE_URL")
    role, database = connection.execute(text("SELECT current_user, current_database()")).one()
    place = f'ALTER ROLE "{role}" IN DATABASE "{database}"'
    fix = psql(url, *[f"{place} SET {name} = {LIMITS[name]}" for name in unlimited])
    return warn("limits", f"{found} (PgBouncer does not pass them on)", f"{fix}; then restart PgBouncer")


def check_clock(connection: Connection, database: Database) -> list[Finding]:
    before = time.time()
    theirs = database.now_ms(connection)
    halfway_ms = round((before + time.time()) * 500)
    skew = check_skew(theirs - halfway_ms, "PostgreSQL's clock and this machine's")
    return [skew, *check_future(connection, theirs), *check_workers(connection, theirs), *check_keys(connection)]


def check_connections(connection: Connection, settings: Settings) -> Finding:
    """Connections available to servers. Ours are not counted: a running server already has them."""
    most, others, ours = connection.execute(
        text(
            "SELECT least("
            "   current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,"
            "   nullif((SELECT datconnlimit FROM pg_database WHERE datname = current_database()), -1),"
            "   nullif((SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user), -1)),"
            " count(*) FILTER (WHERE application_name <> 'holdfast'),"
            " count(*) FILTER (WHERE application_name = 'holdfast' AND pid <> pg_backend_pid())"
            " FROM pg_stat_activity WHERE backend_type = 'client backend'"
        )
    ).one()
    each, room = settings.database_connections, most - others
    found = f"room for {max(room, 0) // each} server processes of {each} connections ({most} allowed, {others} used by"
    found += f" others, {ours} by Holdfast now)"
    if room >= 2 * each:
        return ok("connections", found)
    fix = psql(settings.database_url, f"ALTER SYSTEM SET max_connections = {most + 10 * each}")
    fix += "; then restart PostgreSQL, or lower HOLDFAST_DATABASE_CONNECTIONS"
    return (fail if room < each else warn)("connections", found, fix)
