"""Buyers' tokens verified with published keys: the algorithms, rotation, and what if nobody publishes."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from http_calling import Shop, eventually, problem_of
from http_jwks import KEY_OF, Publisher, SigningKey, signed
from http_serving import BUYER_SECRET, Server, started
from http_tokens import claims_of, encode, hmac_token
from joserfc.jwk import KeySet

from holdfast.access import identity
from holdfast.access.identity import BuyerKeys
from holdfast.errors import Unavailable
from hostile_server import ATTACKS, attacking, bomb, memory_bounded

pytest_plugins = ("http_fixtures",)

ROTATED_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    publisher = Publisher()
    with publisher.opened():
        yield publisher


@pytest.fixture(scope="module")
def keys(publisher: Publisher) -> dict[str, SigningKey]:
    made = {algorithm: make(f"key-{algorithm}") for algorithm, make in KEY_OF.items()}
    publisher.publish(*made.values())
    return made


@pytest.fixture(scope="module")
def trusting(
    publisher: Publisher, keys: dict[str, SigningKey], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that trusts what is published, with the first fetch behind it."""
    with started(tmp_path_factory.mktemp("jwks"), settings={"BUYER_JWKS_URL": publisher.url}) as server:
        assert look(server, signed(keys["RS256"], "RS256")).status_code == 404
        yield server


def look(server: Server, token: str, reservation_id: str = "rsv_unknown") -> httpx.Response:
    """404 means that the buyer was recognised."""
    with server.connect(token) as client:
        return client.get(f"/v1/reservations/{reservation_id}")


@pytest.mark.parametrize("algorithm", KEY_OF)
def test_a_token_signed_with_a_published_key_is_good(
    trusting: Server, keys: dict[str, SigningKey], algorithm: str
) -> None:
    shop = trusting.shop()
    shop.provision(1)
    held = shop.hold("ada")
    assert look(trusting, signed(keys[algorithm], algorithm), held).status_code == 200
    problem_of(look(trusting, signed(keys[algorithm], algorithm, "bob"), held), 404, "reservation_not_found")


def test_the_log_stays_json_whatever_a_token_makes_libraries_say(trusting: Server, keys: dict[str, SigningKey]) -> None:
    with trusting.connect(signed(keys["EdDSA"], "EdDSA")) as client:
        client.get("/v1/json-log")  # Hot endpoints are not logged; an unknown path is.
    assert [line["status"] for line in trusting.log_lines if line.get("path") == "/v1/json-log"] == [404]


def test_a_shared_secret_is_worth_nothing_where_keys_are_published(
    trusting: Server, keys: dict[str, SigningKey]
) -> None:
    kid, public = keys["RS256"].kid, keys["RS256"].as_pem(private=False)
    swapped = [
        hmac_token(claims_of()),
        hmac_token(claims_of(), {"alg": "HS256", "kid": kid}, BUYER_SECRET),
        hmac_token(claims_of(), {"alg": "HS256", "kid": kid}, public),
        hmac_token(claims_of(), {"alg": "HS256", "kid": kid}, public.strip()),
        hmac_token(claims_of(), {"alg": "RS256", "kid": kid}, public),
        f"{encode({'alg': 'none', 'kid': kid})}.{encode(claims_of())}.",
    ]
    for token in swapped:
        problem_of(look(trusting, token), 401, "unauthorized")


def test_a_foreign_key_is_refused_whatever_it_calls_itself(trusting: Server) -> None:
    for algorithm, make in KEY_OF.items():
        problem_of(look(trusting, signed(make("elsewhere"), algorithm)), 401, "unauthorized")
        problem_of(look(trusting, signed(make(f"key-{algorithm}"), algorithm)), 401, "unauthorized")


def test_a_key_brought_along_in_the_token_is_not_trusted(trusting: Server) -> None:
    own = KEY_OF["RS256"]("key-RS256")
    brought = signed(own, "RS256", jwk=own.as_dict(private=False))
    problem_of(look(trusting, brought), 401, "unauthorized")


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256"])
def test_an_algorithm_that_was_not_agreed_is_refused(
    trusting: Server, keys: dict[str, SigningKey], algorithm: str
) -> None:
    problem_of(look(trusting, signed(keys["RS256"], algorithm)), 401, "unauthorized")


@pytest.mark.parametrize(
    "header", [[], "RS256", None, 1, {"kid": []}, {"kid": {}}, {"alg": "RS256", "kid": 7}, b"[" * 5_000]
)
def test_a_header_that_is_no_header_is_refused(trusting: Server, header: object) -> None:
    problem_of(look(trusting, hmac_token(claims_of(), header)), 401, "unauthorized")


def test_made_up_key_ids_do_not_become_a_flood_of_fetches(trusting: Server, publisher: Publisher) -> None:
    before, started_at = publisher.asked, time.monotonic()
    for number in range(50):
        look(trusting, hmac_token(claims_of(), {"alg": "RS256", "kid": f"made-up-{number}"}))
    assert publisher.asked - before <= 2 + (time.monotonic() - started_at) / identity.JWKS_RETRY_S


@pytest.mark.slow
def test_a_new_key_is_picked_up_and_a_withdrawn_one_is_refused(
    trusting: Server, publisher: Publisher, keys: dict[str, SigningKey]
) -> None:
    new = KEY_OF["ES256"]("key-new")
    publisher.publish(new, keys["ES256"])
    eventually(lambda: look(trusting, signed(new, "ES256")).status_code == 404, within_s=ROTATED_WITHIN_S)
    problem_of(look(trusting, signed(keys["RS256"], "RS256", "someone new")), 401, "unauthorized")
    assert look(trusting, signed(keys["ES256"], "ES256")).status_code == 404


def test_buyers_wait_for_keys_that_cannot_be_fetched_and_services_do_not(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    publisher, key = Publisher(), KEY_OF["ES256"]("key")
    publisher.publish(key)
    with started(tmp_path_factory.mktemp("down"), settings={"BUYER_JWKS_URL": publisher.url}) as server:
        problem_of(look(server, signed(key, "ES256")), 503, "not_ready")
        shop = server.shop()
        assert shop.provision(1).status_code == 200
        with publisher.opened():
            eventually(lambda: look(server, signed(key, "ES256")).status_code == 404, within_s=ROTATED_WITHIN_S)
        assert look(server, signed(key, "ES256", "bob")).status_code == 404, "keys once fetched outlive their publisher"


async def test_keys_that_were_good_are_good_while_their_publisher_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, key = Publisher(), KEY_OF["ES256"]("key")
    publisher.publish(key)
    with publisher.opened():
        keys, token = BuyerKeys("", publisher.url), signed(key, "ES256")
        await keys.keys_for(token)
        publisher.silent_s = 60.0
        monkeypatch.setattr(identity, "JWKS_REFRESH_S", 0.0)
        monkeypatch.setattr(identity, "JWKS_TIMEOUT_S", 2.0)
        keys._tried -= identity.JWKS_RETRY_S  # As if that long had passed.
        for _ in range(20):
            assert isinstance(await keys.keys_for(token), KeySet)
        assert keys._refresh is not None
        assert not keys._refresh.done()
        await keys._refresh
        await keys.keys_for(token)
        assert publisher.asked == 2, "nobody tries again at once"


async def test_a_publisher_that_trickles_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "JWKS_TIMEOUT_S", 0.3)

    async def trickle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable):
            await asyncio.wait_for(
                BuyerKeys("", f"http://127.0.0.1:{port}/").keys_for(signed(KEY_OF["ES256"]("key"), "ES256")), 60
            )


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_publisher_that_drips_never_ends_or_explodes_costs_little_time_and_memory(
    monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    bomb()
    monkeypatch.setattr(identity, "JWKS_TIMEOUT_S", 1.0)
    token = signed(KEY_OF["ES256"]("key"), "ES256")
    async with attacking(ATTACKS[attack]) as url, memory_bounded(8 * 1024 * 1024), asyncio.timeout(60.0):
        with pytest.raises(Unavailable):
            await BuyerKeys("", url).keys_for(token)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1]}', b'{"keys": [{"kty": "x"}]}']
)
def test_nonsense_instead_of_keys_is_our_problem_and_not_the_buyers(nonsense: "Nonsense", body: bytes) -> None:
    nonsense.publisher.body = body
    problem_of(look(nonsense.server, signed(nonsense.key, "ES256")), 503, "not_ready")


class Nonsense:
    def __init__(self, publisher: Publisher, server: Server) -> None:
        self.publisher, self.server = publisher, server
        self.key = KEY_OF["ES256"]("key")


@pytest.fixture(scope="module")
def nonsense(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nonsense]:
    publisher = Publisher()
    with (
        publisher.opened(),
        started(tmp_path_factory.mktemp("nonsense"), settings={"BUYER_JWKS_URL": publisher.url}) as server,
    ):
        yield Nonsense(publisher, server)


@pytest.mark.slow
def test_a_publisher_that_does_not_answer_holds_nobody_up_for_long(nonsense: Nonsense) -> None:
    """One slow fetch is waited for by all who need it; they do not queue up to make one each."""
    nonsense.publisher.silent_s = 4.0
    shop: Shop = nonsense.server.shop()
    with ThreadPoolExecutor(6) as threads:
        tokens = [signed(nonsense.key, "ES256", f"buyer-{number}") for number in range(6)]
        answers = list(threads.map(lambda token: look(nonsense.server, token), tokens))
    for answer in answers:
        problem_of(answer, 503, "not_ready")
    assert shop.provision(1).status_code == 200
