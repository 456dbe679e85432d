"""What HOLDFAST_REDIS_URL may say, and what its neighbours among the settings must then be."""

from pathlib import Path

import pytest

from holdfast.errors import SettingsError
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.gate.redis.link.redis_url import Login, Topology, parse_redis_url
from holdfast.settings import load_settings

POSTGRES = "postgresql://localhost/holdfast"


def test_one_server_has_defaults_for_everything_but_its_name() -> None:
    url = parse_redis_url("redis://cache")
    assert (url.topology, url.addresses, url.login, url.database) == (
        Topology.SINGLE,
        (("cache", 6379),),
        Login(None, None),
        0,
    )
    assert url.tls_files is None


def test_names_and_passwords_are_percent_decoded() -> None:
    url = parse_redis_url("redis://hold%40fast:p%2Fw%3A%25@[::1]:7000/3")
    assert (url.addresses, url.login, url.database) == ((("::1", 7000),), Login("hold@fast", "p/w:%"), 3)


def test_sentinels_have_a_service_and_a_login_of_their_own() -> None:
    url = parse_redis_url("redis+sentinel://:pw@a,b:26380/tickets/2?sentinel_username=s&sentinel_password=p%26w")
    assert (url.topology, url.addresses) == (Topology.SENTINEL, (("a", 26379), ("b", 26380)))
    assert (url.service, url.database) == ("tickets", 2)
    assert (url.login, url.sentinel_login) == (Login(None, "pw"), Login("s", "p&w"))


def test_a_cluster_is_known_by_some_of_its_servers() -> None:
    url = parse_redis_url("redis+cluster://u:pw@a:7000,b:7001")
    assert (url.topology, url.addresses, url.database) == (Topology.CLUSTER, (("a", 7000), ("b", 7001)), 0)


@pytest.mark.parametrize("topology", ["", "+sentinel", "+cluster"])
def test_a_second_s_means_tls_everywhere(topology: str, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    path = "/tickets" if topology == "+sentinel" else ""
    encrypted = parse_redis_url(f"rediss{topology}://host{path}?ssl_ca_certs={ca}")
    plain = parse_redis_url(f"redis{topology}://host{path}")
    assert encrypted.tls_files == {"ssl_ca_certs": str(ca)}
    assert plain.tls_files is None
    with pytest.raises(SettingsError, match="HOLDFAST_REDIS_URL: its ssl_… files cannot be used"):
        open_link(f"rediss{topology}://host{path}?ssl_ca_certs={ca}")


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://:sesame@host",
        "redis+ring://:sesame@host",
        "redis+://:sesame@host",
        "redis://",
        "redis://:sesame@host:port",
        "redis://:sesame@host:99999",
        "redis://:sesame@a,b",
        "redis://:sesame@host/tickets",
        "redis://:sesame@host/0/1",
        "redis+sentinel://:sesame@host",
        "redis+sentinel://:sesame@host/tickets/x",
        "redis+cluster://:sesame@a,,b",
        "redis+cluster://:sesame@a/1",
        "redis://:ses/ame@host",
        "redis://:sesame@[::1",
    ],
)
def test_a_wrong_address_is_answered_with_the_right_forms_and_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError, match=r"HOLDFAST_REDIS_URL.*\n.*redis://user:password@host:6379/0") as refused:
        open_link(url)
    assert "sesame" not in str(refused.value)
    assert "ses/ame" not in str(refused.value)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("redis://host?timeout=3", "only ssl_ca_certs, ssl_certfile, ssl_keyfile"),
        ("redis://host?sesame=sesame@host", "after the question mark may be only"),
        ("rediss://host?ssl_ca_certs=/no/such/file", "ssl_ca_certs names a file that is not there: /no/such/file"),
        (f"redis://host?ssl_keyfile={__file__}", "begin with rediss"),
    ],
)
def test_a_wrong_parameter_is_named(query: str, said: str) -> None:
    with pytest.raises(SettingsError, match=f"HOLDFAST_REDIS_URL: .*{said}") as refused:
        open_link(query)
    assert "sesame" not in str(refused.value)


def test_redis_is_off_unless_it_is_named() -> None:
    assert not load_settings().has_redis
    assert load_settings(redis_url="redis://host", database_url=POSTGRES).has_redis


def test_redis_needs_postgresql_as_its_ledger() -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(redis_url="redis://host")
    assert str(refused.value) == (
        "HOLDFAST_REDIS_URL needs PostgreSQL as its ledger: set HOLDFAST_DATABASE_URL=postgresql://…"
    )


def test_a_wrong_redis_address_is_found_when_the_settings_are_read() -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_REDIS_URL is not an address"):
        load_settings(redis_url="http://host", database_url=POSTGRES)


@pytest.mark.parametrize(
    ("name", "value"), [("redis_fsync", "sometimes"), ("redis_replicas_min", -1), ("redis_timeout_ms", 0)]
)
def test_a_redis_setting_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"HOLDFAST_{name.upper()}"):
        load_settings(**{name: value})
