"""Origins are read strictly: what two parsers could read differently has none."""

import pytest

from holdfast.access.origins import origin_of, parse_origins
from holdfast.errors import SettingsError
from holdfast.settings import load_settings

HOSTILE = [
    "//evil.example", "/\\evil.example", "https:evil.example", "https:/evil.example", "https:\\\\evil.example",
    "https:///evil.example", "https://shop.example.com@evil.example", "https://shop.example.com\\@evil.example",
    "https://shop.example.com\\.evil.example", "https://shop.example.com\n.evil.example", " https://shop.example.com",
    "https://shop.example.com ", "https://shop.example.com\t", "https://evil\u3002example", "https://\u0455hop.example.com",
    "javascript:alert(1)", "data:text/html,x", "ftp://shop.example.com", "https://", "https://:443", "https://.",
    "https://-shop.example.com", "https://shop.example.com:0", "https://shop.example.com:99999", "https://[::1",
    "https://shop%2eexample.com", "null", "*", "", "http\u017f://shop.example.com",
]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://shop.example.com", "https://shop.example.com"),
        ("HTTPS://Shop.Example.com:443/a?b=c#d", "https://shop.example.com"),
        ("http://127.0.0.1:8100/checkout", "http://127.0.0.1:8100"),
        ("http://[::1]:81/", "http://[::1]:81"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("url", HOSTILE)
def test_what_parsers_disagree_about_has_no_origin(url: str) -> None:
    assert origin_of(url) is None


def test_the_setting_takes_origins_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    given = "https://shop.example.com, http://127.0.0.1:8100/"
    assert parse_origins(given) == {"https://shop.example.com", "http://127.0.0.1:8100"}
    assert parse_origins("") == frozenset()
    for wrong in ("*", "null", "shop.example.com", "https://shop.example.com/shop", "https://*.example.com"):
        monkeypatch.setenv("HOLDFAST_ALLOWED_ORIGINS", wrong)
        with pytest.raises(SettingsError, match=r"HOLDFAST_ALLOWED_ORIGINS.*is not an origin"):
            load_settings()
