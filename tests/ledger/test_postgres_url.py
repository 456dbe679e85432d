"""PostgreSQL's address with the options people have in it."""

import socket
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast.bootstrap.marks import place_of
from holdfast.errors import SettingsError
from holdfast.ledger.engine import session
from holdfast.ledger.engine.database_url import with_hosts_as_options
from holdfast.ledger.engine.opening import open_database
from holdfast.ledger.engine.session import KEEPALIVES, keep_alive
from holdfast.ledger.engine.url import CONNECT_TIMEOUT_S, for_asyncpg
from holdfast.settings import Settings


def arguments_of(options: str) -> dict[str, Any]:
    return for_asyncpg(make_url(f"postgresql://u@h/n?{options}"))[1]


def query_of(options: str) -> dict[str, Any]:
    return dict(for_asyncpg(make_url(f"postgresql://u@h/n?{options}"))[0].query)


def test_what_libpq_calls_otherwise_is_renamed() -> None:
    assert query_of("sslmode=require&dbname=other") == {"ssl": "require", "database": "other"}


def test_options_that_only_tune_libpq_are_left_out() -> None:
    assert query_of("channel_binding=require&gssencmode=disable&host=/run/pg") == {"host": "/run/pg"}


@pytest.mark.parametrize(("given", "expected"), [("connect_timeout=7", 7.0), ("connect_timeout=0", CONNECT_TIMEOUT_S)])
def test_a_time_to_connect_is_kept_but_never_for_ever(given: str, expected: float) -> None:
    assert arguments_of(given)["timeout"] == expected


def test_certificates_are_given_where_asyncpg_looks_for_them() -> None:
    arguments = arguments_of("sslmode=verify-full&sslrootcert=/etc/ca%20.pem&sslcert=/c&sslkey=/k")
    assert sorted(arguments["dsn"].partition("?")[2].split("&")) == [
        "sslcert=%2Fc",
        "sslkey=%2Fk",
        "sslrootcert=%2Fetc%2Fca+.pem",
    ]


@pytest.mark.parametrize(
    "options", ["sslmod=require", "connect_timeout=soon", "statement_cache_size=-1", "keepalives_idle=x"]
)
def test_what_is_not_known_is_refused_by_name(options: str) -> None:
    with pytest.raises(SettingsError, match=rf"HOLDFAST_DATABASE_URL.*{options.partition('=')[0]}"):
        open_database(f"postgresql://u:pa55word@h/n?{options}")


async def test_a_server_hears_of_the_options_that_are_for_it(postgres_database_url: str) -> None:
    options = {
        "application_name": "the shop",
        "options": "-c search_path=elsewhere",
        "connect_timeout": "5",
        "channel_binding": "prefer",
        "statement_cache_size": "0",
        "sslmode": "disable",
    }
    url = make_url(postgres_database_url).update_query_dict(options).render_as_string(hide_password=False)
    database = open_database(url)
    try:
        shown = await database.read(
            lambda connection: [
                connection.execute(text(f"SHOW {name}")).scalar_one()
                for name in ("application_name", "search_path", "jit")
            ]
        )
    finally:
        await database.close()
    assert shown == ["the shop", "elsewhere", "off"]


SHOWN = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "client_connection_check_interval")


async def shown_with(url: str, options: str | None = None) -> list[str]:
    query = {} if options is None else {"options": options}
    database = open_database(make_url(url).update_query_dict(query).render_as_string(hide_password=False))
    try:
        return await database.read(lambda c: [c.execute(text(f"SHOW {name}")).scalar_one() for name in SHOWN])
    finally:
        await database.close()


async def test_sessions_have_limits_on_the_server_unless_the_address_says_otherwise(postgres_database_url: str) -> None:
    assert await shown_with(postgres_database_url) == ["2s", "5s", "2s", "1s"]
    theirs = "-c lock_timeout=7s --statement-timeout=9s -cclient_connection_check_interval=0"
    assert await shown_with(postgres_database_url, theirs) == ["7s", "9s", "2s", "0"]


async def test_a_server_that_lacks_a_newer_setting_gets_the_others(
    postgres_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_NEWER", {"not_invented_yet": "1"})
    assert (await shown_with(postgres_database_url))[:3] == ["2s", "5s", "2s"]


async def test_a_long_transaction_has_longer_limits_and_the_next_one_not(postgres_database_url: str) -> None:
    database = open_database(postgres_database_url, connections=1)

    def limits(connection: Connection) -> list[str]:
        return [connection.execute(text(f"SHOW {name}")).scalar_one() for name in SHOWN[:3]]

    assert await database.write(limits, timeout_s=60.0) == ["1min"] * 3
    assert await database.write(limits) == ["2s", "5s", "2s"]
    await database.close()


TCP_OPTIONS = {
    "keepalives_idle": socket.TCP_KEEPIDLE,
    "keepalives_interval": socket.TCP_KEEPINTVL,
    "keepalives_count": socket.TCP_KEEPCNT,
    "tcp_user_timeout": socket.TCP_USER_TIMEOUT,
}


@pytest.mark.parametrize("given", [{}, {"keepalives_idle": 33, "tcp_user_timeout": 7_000}])
def test_a_socket_notices_a_dead_server_as_soon_as_the_address_says(given: dict[str, int]) -> None:
    options = KEEPALIVES | given
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connected:
        keep_alive(connected, options)
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for name, number in TCP_OPTIONS.items():
            assert connected.getsockopt(socket.IPPROTO_TCP, number) == options[name]


def test_a_socket_is_left_alone_if_the_address_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connected:
        keep_alive(connected, KEEPALIVES | {"keepalives": 0})
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://h1/db", "postgresql://h1/db"),
        ("sqlite:///a,b.db", "sqlite:///a,b.db"),
        ("postgresql://u:a,b@h1/db", "postgresql://u:a,b@h1/db"),
        ("postgresql://h1,h2/db", "postgresql:///db?host=h1:5432&host=h2:5432&target_session_attrs=read-write"),
        (
            "postgresql://u:p@h1:5432,h2:5433/db?sslmode=require&target_session_attrs=primary",
            "postgresql://u:p@/db?host=h1:5432&host=h2:5433&sslmode=require&target_session_attrs=primary",
        ),
    ],
)
def test_several_hosts_become_options_and_the_primary_is_wanted(url: str, expected: str) -> None:
    assert with_hosts_as_options(url) == expected


@pytest.mark.parametrize(
    ("hosts", "ports"),
    [
        ("h1:5432,h2:5433", [5432, 5433]),
        ("h1,h2", [5432, 5432]),
        ("h1,h2:5433", [5432, 5433]),
        ("h1:5433,h2:", [5433, 5432]),
        ("h1:5433,h2,", [5433, 5432]),
    ],
)
def test_every_host_and_port_reaches_the_driver(hosts: str, ports: list[int]) -> None:
    url, _ = for_asyncpg(make_url(with_hosts_as_options(f"postgresql://u@{hosts}/db")))
    _, given = create_async_engine(url).dialect.create_connect_args(url)
    assert (given["host"], given["port"]) == (["h1", "h2"], ports)
    assert given["target_session_attrs"] == "read-write"


@pytest.mark.parametrize("hosts", ["[::1]:5432,[::2]:5433", "[::1],h2", "h1,[::2]"])
def test_an_ipv6_address_among_several_hosts_is_refused_by_name(hosts: str) -> None:
    with pytest.raises(SettingsError, match=r"HOLDFAST_DATABASE_URL: an IPv6 address"):
        with_hosts_as_options(f"postgresql://u:pa55word@{hosts}/db")


def test_several_hosts_are_one_place_whatever_their_order(tmp_path: Path) -> None:
    one, other = (Settings(database_url=f"postgresql://{hosts}/db", data=tmp_path) for hosts in ("h1,h2", "h2,h1"))
    assert place_of(one) == place_of(other)
