"""Rates by address and by buyer over HTTP: told in headers, refused in time, never for services."""

from collections.abc import Callable, Iterator

import httpx
import pytest
from http_calling import eventually, problem_of
from http_sales import Store, store_of
from http_serving import SERVICE_KEY, Server, started
from http_tokens import buyer_token

from holdfast.http.protection.limits import BURST_S

pytest_plugins = ("http_fixtures",)

# As little as may be: on a busy machine more is asked for in a second than comes back.
PER_ADDRESS, PER_BUYER = 1, 1
ASKED_AT_MOST = 1_000


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {
        "RATE_PER_ADDRESS": str(PER_ADDRESS),
        "RATE_PER_BUYER": str(PER_BUYER),
        "TRUSTED_PROXIES": "127.0.0.0/8,10.0.0.0/8",
    }
    with started(tmp_path_factory.mktemp("limited"), settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def store(limited: Server) -> Store:
    store = store_of(limited)
    store.open()
    return store


def ask(server: Server, path: str, *, through: str = "", token: str | None = None) -> httpx.Response:
    with server.connect(token) as client:
        return client.get(path, headers={"X-Forwarded-For": through} if through else {})


def statuses(server: Server, path: str, count: int, **how: str) -> list[int]:
    return [ask(server, path, **how).status_code for _ in range(count)]


def until_refused(ask_once: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """All answers, of which only the last is a refusal."""
    answers = [ask_once()]
    while answers[-1].status_code == 200 and len(answers) < ASKED_AT_MOST:
        answers.append(ask_once())
    assert answers[-1].status_code == 429
    return answers


def test_an_address_that_asks_too_often_is_told_when_to_come_back(limited: Server, store: Store) -> None:
    path, burst = f"{store.path}/now", PER_ADDRESS * BURST_S
    *answered, refused = until_refused(lambda: ask(limited, path, through="192.0.2.1"))
    assert len(answered) >= burst
    body = problem_of(refused, 429, "rate_limited")
    assert 0 < body["retry_after_ms"] <= 1_000
    assert refused.headers["ratelimit-policy"] == f'"address";q={burst};w={BURST_S}'
    assert refused.headers["ratelimit"].startswith('"address";r=0;t=')
    assert ask(limited, path, through="192.0.2.2").status_code == 200


@pytest.mark.parametrize(
    "through",
    [
        "{n}.1.1.1, 192.0.2.7",
        "{n}.1.1.1, 192.0.2.7, 10.1.2.3",
        "garbage {n}, 192.0.2.7:4711, 10.1.2.3, 10.9.9.9",
        "127.0.0.1, 192.0.2.7",
    ],
)
def test_what_a_client_writes_into_forwarded_for_changes_nothing(limited: Server, store: Store, through: str) -> None:
    told = [ask(limited, f"{store.path}/now", through=through.format(n=n + 1)).status_code for n in range(40)]
    assert told.count(429) > 10


def test_addresses_of_one_ipv6_network_count_as_one(limited: Server, store: Store) -> None:
    told = [ask(limited, f"{store.path}/now", through=f"2001:db8:1:2::{n + 1:x}").status_code for n in range(40)]
    assert told.count(429) > 10


def test_loopback_is_exempt_by_address(limited: Server, store: Store) -> None:
    assert set(statuses(limited, f"{store.path}/now", 60)) == {200}


def test_services_and_probes_are_never_limited(limited: Server, store: Store) -> None:
    assert set(statuses(limited, store.path, 60, through="192.0.2.9", token=SERVICE_KEY)) == {200}
    assert set(statuses(limited, "/healthz/live", 60, through="192.0.2.9")) == {200}
    assert ask(limited, store.path, through="192.0.2.9").status_code == 200


def test_a_client_that_guesses_keys_is_slowed_down(limited: Server) -> None:
    told = [ask(limited, "/v1/reservations", through="192.0.2.10", token=f"hf_{n:032}").status_code for n in range(80)]
    assert set(told[: PER_ADDRESS * BURST_S]) == {401}
    assert told.count(429) > 10
    assert ask(limited, "/v1/reservations", through="192.0.2.11", token=SERVICE_KEY).status_code == 200


def test_a_buyer_is_told_what_is_left_and_refused_when_nothing_is(limited: Server) -> None:
    burst = PER_BUYER * BURST_S
    with limited.connect(buyer_token("often")) as client:
        *answered, refused = until_refused(lambda: client.get("/v1/orders"))
    assert len(answered) >= burst
    assert answered[0].headers["ratelimit-policy"] == f'"buyer";q={burst};w={BURST_S}'
    assert answered[0].headers["ratelimit"] == f'"buyer";r={burst - 1};t=1'
    problem_of(refused, 429, "rate_limited")
    # One token in many spellings is one buyer.
    with limited.connect() as client:
        spelled = [{"Authorization": f"{scheme} {buyer_token('often')}"} for scheme in ("bearer", "BEARER", "bEARER")]
        assert 429 in [client.get("/v1/orders", headers=headers).status_code for headers in spelled]


def test_a_buyer_who_looks_more_than_once_in_two_seconds_is_told_to_wait(limited: Server, store: Store) -> None:
    with limited.connect(buyer_token("looker")) as client:
        for path in (f"{store.path}/now", store.path):
            *answered, refused = until_refused(lambda path=path: client.get(path))  # type: ignore[misc]
            assert answered
            assert problem_of(refused, 429, "rate_limited")["retry_after_ms"] <= 1_900
            assert refused.headers["retry-after"] in ("1", "2")
    with limited.connect(buyer_token("another")) as client:
        assert client.get(f"{store.path}/now").status_code == 200


def test_limits_are_counted(limited: Server, store: Store) -> None:
    until_refused(lambda: ask(limited, f"{store.path}/now", through="192.0.2.20"))
    with limited.connect(buyer_token("counted")) as client:
        until_refused(lambda: client.get("/v1/orders"))
        until_refused(lambda: client.get(store.path))
    wrong = {"through": "192.0.2.21", "token": "hf_" + "0" * 32}
    # The limit of its address, which is lower here, refuses it first.
    eventually(lambda: '"keys"' in ask(limited, "/v1/reservations", **wrong).headers.get("ratelimit-policy", ""))
    text = limited.client.get("/metrics").text
    for policy in ("address", "buyer", "looks", "keys"):
        assert f'holdfast_rate_limited_total{{policy="{policy}"}}' in text
