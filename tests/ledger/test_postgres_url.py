"""PostgreSQL's address with the options people have in it."""

from typing import Any

import pytest
from sqlalchemy import make_url, text

from holdfast.errors import SettingsError
from holdfast.ledger.database import open_database
from holdfast.ledger.postgres_url import CONNECT_TIMEOUT_S, for_asyncpg


def arguments_of(options: str) -> dict[str, Any]:
    return for_asyncpg(make_url(f"postgresql://u@h/n?{options}"))[1]


def query_of(options: str) -> dict[str, Any]:
    return dict(for_asyncpg(make_url(f"postgresql://u@h/n?{options}"))[0].query)


def test_what_libpq_calls_otherwise_is_renamed() -> None:
    assert query_of("sslmode=require&dbname=other") == {"ssl": "require", "database": "other"}


def test_options_that_only_tune_libpq_are_left_out() -> None:
    assert query_of("channel_binding=require&keepalives=1&gssencmode=disable&host=/run/pg") == {"host": "/run/pg"}


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


@pytest.mark.parametrize("options", ["sslmod=require", "connect_timeout=soon", "statement_cache_size=-1"])
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
