"""Files for the browser: the same for everyone, and nothing but those there are."""

import httpx
import pytest
from http_serving import Server

pytest_plugins = ("http_fixtures",)


def ask(server: Server, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers=headers, verify=False, trust_env=False)


def test_a_file_is_cached_and_asked_for_again_costs_nothing(embedded: Server) -> None:
    first = ask(embedded, "/assets/vendor/preact.mjs")
    assert first.status_code == 200
    assert first.headers["content-type"].startswith("text/javascript")
    assert first.headers["cache-control"].startswith("public, max-age=60")
    for known in (first.headers["etag"], f"W/{first.headers['etag']}"):
        again = ask(embedded, "/assets/vendor/preact.mjs", **{"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")


def test_no_script_and_no_style_may_stand_in_a_page_or_come_from_elsewhere(embedded: Server) -> None:
    policy = ask(embedded, "/assets/holdfast.svg").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["../pages.py", "..%2fschema.py", "vendor", "vendor/", "", "vendor/README.md", "%00"])
def test_what_is_no_file_for_the_browser_does_not_exist(embedded: Server, path: str) -> None:
    assert ask(embedded, f"/assets/{path}").status_code == 404
