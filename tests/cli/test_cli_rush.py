"""Refusals of `holdfast rush`. Whole rushes are in tests/rush."""

import pytest
from cli_running import Here

pytest_plugins = ("cli_fixtures",)

SECRET, KEY = "s" * 32, "hf_" + "k" * 20
URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scenario", "nonsense"], "there is no scenario nonsense"),
        (["--report", "no/such/place.html"], "there is no directory"),
        (["--sale", "demo"], "--sale needs --url"),
        (["--url", URL], "HOLDFAST_BUYER_SECRET"),
        (["--url", URL, "--buyer-secret", SECRET], "HOLDFAST_SERVICE_KEY"),
        (["--url", URL, "--buyer-secret", "short"], "at least 32 bytes"),
        (["--url", URL, "--engine", "redis"], "--engine applies only without --url"),
        (["--url", URL, "--api-processes", "2"], "--api-processes applies only without --url"),
        (["--engine", "oracle"], "oracle"),
        (["--users", "0"], "--users"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_started(here: Here, arguments: list[str], says: str) -> None:
    ran = here("rush", *arguments)
    assert ran.code == 2
    assert says in ran.err
    assert ran.out == ""


def test_a_custom_scenario_with_an_unknown_field_is_refused(here: Here) -> None:
    (here.directory / "mine.toml").write_text('name = "Mine"\n[crowd]\nabandoned = 0.5\n')
    ran = here("rush", "--scenario", "mine.toml")
    assert ran.code == 2
    assert "mine.toml: Object contains unknown field `abandoned` - at `$.crowd`" in ran.err


def test_only_plain_http_is_supported(here: Here) -> None:
    ran = here("rush", "--url", "https://shop.example", "--quiet", BUYER_SECRET=SECRET, SERVICE_KEY=KEY)
    assert ran.code == 2
    assert "plain HTTP" in ran.err


def test_an_unreachable_server_is_reported_and_no_process_left(here: Here) -> None:
    arguments = ("--url", URL, "--sale", "demo", "--no-checks", "--quiet")
    ran = here("rush", *arguments, BUYER_SECRET=SECRET)
    assert ran.code == 1
    assert "does not answer" in ran.err


def test_generated_keys_in_the_data_directory_are_used(here: Here) -> None:
    (here.directory / "data").mkdir()
    (here.directory / "data" / "buyer_secret").write_text(SECRET)
    ran = here("rush", "--url", URL, "--sale", "demo", "--no-checks", "--quiet")
    assert ran.code == 1
    assert "does not answer" in ran.err
