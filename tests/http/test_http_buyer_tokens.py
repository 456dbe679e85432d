"""Buyers' tokens, signed with a shared secret: what they open, and every way to be refused (FAULTS 20, 23)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from http_calling import Shop, body_of, eventually, problem_of
from http_serving import BUYER_SECRET, Server, connect, on_one_engine, started
from http_tokens import HS256, buyer_token, claims_of, encode, hmac_token, tampered, without
from joserfc import jwt
from joserfc.jwk import RSAKey

from holdfast.access import identity
from holdfast.access.identity import Unauthorized
from holdfast.bootstrap.services import open_services
from holdfast.settings import load_settings

pytest_plugins = ("http_fixtures",)


@contextmanager
def as_buyer(shop: Shop, token: str) -> Iterator[Shop]:
    with connect(str(shop.client.base_url), token) as client:
        yield Shop(client, shop.sku_id)


def test_a_buyer_sees_and_moves_their_own_reservation(shop: Shop) -> None:
    shop.provision(2)
    held = shop.hold("ada")
    with as_buyer(shop, buyer_token("ada")) as ada:
        assert body_of(ada.show(held)) == body_of(shop.show(held))
        assert body_of(ada.extend(held, 1_000))["reservation_id"] == held
        assert [event["type"] for event in ada.events(held)] == ["reservation.created", "reservation.extended"]
        assert [ada.cancel(held).status_code for _ in range(2)] == [204, 204]
    assert shop.counts() == (2, 0, 0, 2)


def test_another_buyers_reservation_is_not_there(shop: Shop) -> None:
    shop.provision(1)
    held = body_of(shop.reserve("ada"))
    with as_buyer(shop, buyer_token("bob")) as bob:
        path = f"/v1/reservations/{held['reservation_id']}"
        asked = [bob.client.get(path), bob.client.get(f"{path}/history"), bob.client.delete(path)]
        asked.append(bob.client.post(f"{path}/extend", json={"ttl_seconds": 1}))
        for answer in asked:
            problem_of(answer, 404, "reservation_not_found")
        nowhere = bob.show(f"rsv_{'0' * 32}_{shop.sku_id}")
        assert bob.show(held["reservation_id"]).json() == nowhere.json()
    assert body_of(shop.show(held["reservation_id"])) == held


@on_one_engine
def test_owners_that_only_look_alike_are_others(shop: Shop) -> None:
    shop.provision(5)
    held = shop.hold("ada")
    for sub in ("Ada", "ada ", " ada", "аda", "ada\u200b"):  # noqa: RUF001 - one letter is Cyrillic
        with as_buyer(shop, buyer_token(sub)) as other:
            assert other.show(held).status_code in (401, 404)


@on_one_engine
def test_a_buyer_cannot_use_the_inventory(shop: Shop) -> None:
    shop.provision(1)
    with as_buyer(shop, buyer_token("ada")) as ada:
        for answer in (ada.provision(9), ada.available(), ada.reserve("ada")):
            problem_of(answer, 403, "forbidden")
        problem_of(ada.client.get("/metrics"), 403, "forbidden")
    assert shop.counts() == (1, 0, 0, 1)


@on_one_engine
def test_a_buyer_cannot_confirm_without_paying(shop: Shop) -> None:
    shop.provision(1)
    held = shop.hold("ada")
    with as_buyer(shop, buyer_token("ada")) as ada:
        problem_of(ada.confirm(held), 403, "forbidden")
    assert shop.counts() == (0, 1, 0, 1)


def _rs256() -> str:
    return jwt.encode({"alg": "RS256"}, claims_of(), RSAKey.generate_key(2048))


def _public_key_as_secret() -> str:
    return hmac_token(claims_of(), HS256, RSAKey.generate_key(2048).as_pem(private=False))


ABUSED = {
    "alg none": f"{encode({'alg': 'none'})}.{encode(claims_of())}.",
    "alg none, signed": hmac_token(claims_of(), {"alg": "none"}),
    "alg None": f"{encode({'alg': 'None'})}.{encode(claims_of())}.",
    "no alg": hmac_token(claims_of(), {"typ": "JWT"}),
    "alg is a number": hmac_token(claims_of(), {"alg": 256}),
    "alg is a list": hmac_token(claims_of(), {"alg": ["HS256"]}),
    "HS384": hmac_token(claims_of(), {"alg": "HS384"}, digest="sha384"),
    "HS512": hmac_token(claims_of(), {"alg": "HS512"}, digest="sha512"),
    "typ of a refresh token": hmac_token(claims_of(), {"alg": "HS256", "typ": "refresh+jwt"}),
    "typ of a receipt": hmac_token(claims_of(), {"alg": "HS256", "typ": "holdfast-receipt"}),
    "typ is a number": hmac_token(claims_of(), {"alg": "HS256", "typ": 7}),
    "typ is empty": hmac_token(claims_of(), {"alg": "HS256", "typ": ""}),
    "HS512 header, HS256 signature": hmac_token(claims_of(), {"alg": "HS512"}),
    "RS256": _rs256(),
    "public key as secret": _public_key_as_secret(),
    "other secret": hmac_token(claims_of(), secret="another-secret-another-secret-another"),
    "empty secret": hmac_token(claims_of(), secret=""),
    "own key in the header": hmac_token(claims_of(), HS256 | {"jwk": {"kty": "oct", "k": "eHh4"}}, secret="xxx"),
    "key address in the header": hmac_token(claims_of(), HS256 | {"jku": "http://127.0.0.1:9/"}, secret="x"),
    "unknown critical header": hmac_token(claims_of(), HS256 | {"crit": ["exp2"], "exp2": 1}),
    "no exp": hmac_token(without(claims_of(), "exp")),
    "exp long past": buyer_token(exp=1),
    "exp past": buyer_token(exp=int(time.time()) - 120),
    "exp is text": buyer_token(exp=str(int(time.time()) + 600)),
    "exp is null": buyer_token(exp=None),
    "exp is a list": buyer_token(exp=[int(time.time()) + 600]),
    "exp in two months": buyer_token(exp=int(time.time()) + 60 * 86_400),
    "exp in the year 318857": buyer_token(exp=10**13),
    "exp has 400 digits": buyer_token(exp=10**400),
    "exp is a huge float": buyer_token(exp=1e300),
    "exp is negative": buyer_token(exp=-1),
    "not before tomorrow": buyer_token(nbf=int(time.time()) + 86_400),
    "no sub": hmac_token(without(claims_of(), "sub")),
    "sub is empty": buyer_token(""),
    "sub is a number": buyer_token(7),
    "sub is null": buyer_token(None),
    "sub is a list": buyer_token(["ada"]),
    "sub is too long": buyer_token("x" * 201),
    "sub has a NUL": buyer_token("ada\x00"),
    "sub has a newline": buyer_token("ada\n"),
    "sub is half a character": buyer_token("\ud800"),
    "tier is true": buyer_token(tier=True),
    "tier is text": buyer_token(tier="1"),
    "tier is null": buyer_token(tier=None),
    "tier is a float": buyer_token(tier=1.5),
    "other sub, old signature": tampered(buyer_token("bob"), sub="ada"),
    "later exp, old signature": tampered(buyer_token(exp=1), exp=int(time.time()) + 600),
    "cut short": buyer_token()[:-4],
    "no signature": buyer_token().rpartition(".")[0] + ".",
    "two parts": buyer_token().rpartition(".")[0],
    "four parts": buyer_token() + ".e30",
    "five parts": "e30.e30.e30.e30.e30",
    "dots": "..",
    "header is a list": hmac_token(claims_of(), []),
    "header is text": hmac_token(claims_of(), "HS256"),
    "header is null": hmac_token(claims_of(), None),
    "header is deep": hmac_token(claims_of(), b'{"alg":' + b"[" * 5_000),
    "claims are a list": hmac_token(["ada"]),
    "claims are text": hmac_token("ada"),
    "claims are null": hmac_token(None),
    "claims are not JSON": hmac_token(b"\xff\xfe"),
    "claims are deep": hmac_token(b'{"sub":' + b"[" * 5_000),
}


@pytest.mark.parametrize("token", [pytest.param(token, id=name) for name, token in ABUSED.items()])
def test_an_abused_token_is_refused(embedded: Server, token: str) -> None:
    shop = embedded.shop()
    shop.provision(1)
    held = shop.hold("ada")
    with as_buyer(shop, token) as thief:
        for answer in (thief.show(held), thief.cancel(held), thief.available(), thief.reserve()):
            problem_of(answer, 401, "unauthorized")
    assert shop.counts() == (0, 1, 0, 1)


def test_a_token_may_last_for_a_month_and_is_told_why_if_it_lasts_longer(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(1)
    held = shop.hold("ada")
    now = int(time.time())
    with as_buyer(shop, buyer_token(exp=now + 30 * 86_400)) as ada:
        body_of(ada.show(held))
    with as_buyer(shop, buyer_token(exp=now + 31 * 86_400)) as ada:
        assert "30 days" in problem_of(ada.show(held), 401, "unauthorized")["detail"]


async def test_what_is_remembered_of_callers_is_bounded(tmp_path: Path) -> None:
    async with open_services(load_settings(data=tmp_path, buyer_secret=BUYER_SECRET), background=False) as holdfast:
        authenticator, token = holdfast.authenticator, buyer_token("ada")
        assert (await authenticator.identify(f"Bearer {token}")).buyer_id == "ada"
        for padded in (f"Bearer  {token}", f"Bearer {token} ", f"Bearer \t{token}"):
            with pytest.raises(Unauthorized):
                await authenticator.identify(padded)
        long = f"Bearer {buyer_token('ada', note='x' * 5_000)}"
        assert (await authenticator.identify(long)).buyer_id == "ada"
        assert authenticator.recognise(f"Bearer {token}") is not None
        assert authenticator.recognise(long) is None


async def test_what_the_secret_signed_is_remembered_until_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    async with open_services(load_settings(data=tmp_path, buyer_secret=BUYER_SECRET), background=False) as holdfast:
        authenticator, header = holdfast.authenticator, f"Bearer {buyer_token('ada', exp=int(time.time()) + 600)}"
        await authenticator.identify(header)
        monkeypatch.setattr(identity, "monotonic", lambda: now + 590)
        assert authenticator.recognise(header) is not None
        monkeypatch.setattr(identity, "monotonic", lambda: now + 640)
        assert authenticator.recognise(header) is None


async def test_a_remembered_token_expires_by_the_wall_clock_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was behind when the token was read, or the machine was suspended."""
    wall = time.time()
    async with open_services(load_settings(data=tmp_path, buyer_secret=BUYER_SECRET), background=False) as holdfast:
        header = f"Bearer {buyer_token('ada', exp=int(wall) + 600)}"
        await holdfast.authenticator.identify(header)
        monkeypatch.setattr(identity, "time", lambda: wall + 590)
        assert holdfast.authenticator.recognise(header) is not None
        monkeypatch.setattr(identity, "time", lambda: wall + 640)
        assert holdfast.authenticator.recognise(header) is None


async def test_what_is_remembered_of_callers_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "REMEMBERED_BYTES", 1_000)
    async with open_services(load_settings(data=tmp_path, buyer_secret=BUYER_SECRET), background=False) as holdfast:
        authenticator = holdfast.authenticator
        headers = [f"Bearer {buyer_token(f'buyer {n}')}" for n in range(50)]
        for header in headers:
            await authenticator.identify(header)
            assert authenticator.recognise(header) is not None
            assert sum(map(len, authenticator._known)) <= 1_000


def test_a_token_stops_working_when_it_expires(embedded: Server) -> None:
    """Clocks may differ by half a minute, and a token that was good a moment ago is not remembered beyond its end."""
    shop = embedded.shop()
    shop.provision(1)
    held = shop.hold("ada")

    def good_for_a_moment() -> str:
        token = buyer_token(exp=int(time.time()) - 28)
        with as_buyer(shop, token) as ada:
            return token if ada.show(held).status_code == 200 else ""

    def is_over(ada: Shop) -> bool:
        time.sleep(0.05)  # Nobody tells when, and who asks more often is asked to wait.
        return ada.show(held).status_code == 401

    with as_buyer(shop, eventually(good_for_a_moment)) as ada:
        eventually(lambda: is_over(ada))
        problem_of(ada.show(held), 401, "unauthorized")


def test_a_buyer_id_of_200_characters_and_any_tier_is_fine(embedded: Server) -> None:
    shop = embedded.shop()
    shop.provision(1)
    held = shop.hold("é" * 200)
    with as_buyer(shop, buyer_token("é" * 200, tier=3, name="Ada", iat=int(time.time()))) as ada:
        body_of(ada.show(held))


def test_tokens_for_other_services_and_from_other_issuers_are_refused(tmp_path: Path) -> None:
    settings = {"BUYER_AUDIENCE": "shop", "BUYER_ISSUER": "https://login.test"}
    ours: dict[str, object] = {"aud": "shop", "iss": "https://login.test"}
    with started(tmp_path, settings=settings) as server:

        def status(claims: dict[str, object]) -> int:
            with server.connect(hmac_token(claims_of(**claims))) as client:
                return client.get("/v1/orders").status_code

        good: list[dict[str, object]] = [ours, ours | {"aud": ["other", "shop"]}]
        bad: list[dict[str, object]] = [
            {},
            without(ours, "aud"),
            without(ours, "iss"),
            ours | {"aud": "other"},
            ours | {"aud": ["other"]},
            ours | {"aud": []},
            ours | {"aud": "shop2"},
            ours | {"iss": "https://login.test/"},
            ours | {"iss": ["https://login.test"]},
        ]
        # Twice, because a token whose header is known is read by other code.
        for _ in range(2):
            assert [status(claims) for claims in good] == [200] * len(good)
            assert [status(claims) for claims in bad] == [401] * len(bad)
        token = server.command("keys", "token", "ada")["token"]
        with server.connect(token) as client:
            assert client.get("/v1/orders").status_code == 200


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_access_tokens_are_accepted_however_their_type_is_written(embedded: Server, kind: str) -> None:
    with embedded.connect(hmac_token(claims_of(), {"alg": "HS256", "typ": kind})) as client:
        assert client.get("/v1/orders").status_code == 200
