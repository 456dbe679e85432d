"""The quick reader of buyers' tokens beside joserfc: it says yes only where that does, and reads the same."""

import json
from typing import Any

import pytest
from http_serving import BUYER_SECRET
from http_tokens import HS256, encode, hmac_token, signed_token
from hypothesis import example, given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from holdfast.access.identity import SKEW_S
from holdfast.access.quick_tokens import HEADS_MAX, QuickTokens

NOW = 1_800_000_000
USUAL = {"sub": "ada", "exp": NOW + 600}
HEADS = [HS256, {"alg": "HS256"}, {"alg": "HS256", "kid": "k1"}, {"typ": "JWT", "alg": "HS256", "kid": "k1"}]
ODD_HEADS: list[Any] = [
    {"alg": "none"},
    {"alg": "HS512"},
    {"alg": "HS256", "b64": False, "crit": ["b64"]},
    {"alg": "HS256", "crit": ["exp"]},
    {"alg": "HS256", "unknown": 1},
    {"alg": ["HS256"]},
    {"typ": "JWT"},
]
KEY = OctKey.import_key(BUYER_SECRET)
RULES = jwt.JWTClaimsRegistry(now=NOW, leeway=SKEW_S, exp={"essential": True}, sub={"essential": True})


def library(token: str) -> dict[str, Any] | None:
    try:
        claims = jwt.decode(token, KEY, algorithms=["HS256"]).claims
        RULES.validate(claims)
    except (JoseError, ValueError, TypeError, OverflowError):
        return None
    tier = claims.get("tier", 0)
    return claims if isinstance(tier, int) and not isinstance(tier, bool) else None


def experienced() -> QuickTokens:
    """One that has seen every head which joserfc accepts."""
    quick = QuickTokens(BUYER_SECRET, SKEW_S)
    for head in HEADS + ODD_HEADS:
        token = hmac_token(USUAL, head)
        if library(token) is not None:
            quick.learn(token)
    return quick


QUICK = experienced()


def check(token: str) -> None:
    quick, slow = QUICK.read(token, NOW + 0.5), library(token)
    if quick is not None:
        assert slow is not None
        assert (quick.sub, quick.exp, quick.tier) == (slow["sub"], slow["exp"], slow.get("tier", 0))


around_now = st.sampled_from([-31, -30, -29, -1, 0, 1, 29, 30, 31, 600]).map(lambda off: NOW + off)
odd = st.one_of(
    st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.integers(), st.just(10**400),
    st.lists(st.text(max_size=3), max_size=2), st.just([1]), st.just({}),
)  # fmt: skip
names = st.sampled_from(["sub", "exp", "tier", "nbf", "iat", "iss", "jti", "aud", "other", "sub\u0000", "ex"])
claims = st.fixed_dictionaries({}, optional={"sub": st.text(max_size=8), "exp": around_now, "tier": st.integers()})
more_claims = st.dictionaries(names, st.one_of(odd, around_now), max_size=3)


@given(st.sampled_from(HEADS + ODD_HEADS), claims, more_claims)
def test_what_it_accepts_the_library_accepts_and_reads_alike(
    head: dict[str, Any], first: dict[str, Any], more: dict[str, Any]
) -> None:
    check(hmac_token(first | more, head))
    check(hmac_token(USUAL | more, head))


@given(st.sampled_from(HEADS), st.binary(max_size=40), st.integers(0, 60))
@example(HS256, b'{"sub":"ada","exp":1800000600,"sub":"bob"}', 0)
@example(HS256, b'{"sub":"ada","exp":1800000600,"x":"\xff"}', 0)
@example(HS256, b'\xff\xfe{"sub":"ada","exp":1800000600}', 0)
@example(HS256, b'{"sub":"ada","exp":1800000600,"x":NaN}', 0)
@example(HS256, b'{"sub":"ada","exp":1.8000006e9}', 0)
@example(HS256, b'{"sub":"ada","exp":1800000600,"tier":1.0}', 0)
@example(HS256, b'{"sub":"ada","exp":1800000600} x', 0)
def test_whatever_is_signed_is_read_alike(head: dict[str, Any], content: bytes, at: int) -> None:
    usual = json.dumps(USUAL).encode()
    check(hmac_token(content, head))
    check(hmac_token(usual[:at] + content + usual[at:], head))
    check(hmac_token(usual[:at] + content + usual[at + len(content) :], head))


# Its base64url has both characters that the standard alphabet does not have, and bits to spare at the end.
PAYLOAD = encode('{"sub":"aÿÿþ>?~","exp":1800000600}'.encode())


@pytest.mark.parametrize(
    "payload",
    [PAYLOAD.replace("-", "+"), PAYLOAD.replace("_", "/"), f"{PAYLOAD}=", f"{PAYLOAD}==", f" {PAYLOAD}", f"{PAYLOAD}\n",
     f"{PAYLOAD}\0", f"{PAYLOAD[:-1]}{chr(ord(PAYLOAD[-1]) + 1)}", f"{PAYLOAD}A", PAYLOAD[:-1]],
)  # fmt: skip
def test_only_one_spelling_of_a_signed_payload_is_read(payload: str) -> None:
    assert payload != PAYLOAD
    assert QUICK.read(signed_token(f"{encode(HS256)}.{PAYLOAD}"), NOW) is not None
    token = signed_token(f"{encode(HS256)}.{payload}")
    assert QUICK.read(token, NOW) is None
    assert library(token) is None


@given(st.integers(0, 200), st.characters(max_codepoint=1_000), st.booleans())
def test_a_token_with_one_character_more_or_another_is_read_alike(at: int, character: str, replaced: bool) -> None:
    token = hmac_token(USUAL)
    check(token[:at] + character + token[at + replaced :])
    check(token[: at % len(token)])


@pytest.mark.parametrize("head", HEADS, ids=map(json.dumps, HEADS))
def test_usual_tokens_are_read_quickly_once_the_library_has_accepted_one(head: dict[str, Any]) -> None:
    quick = QuickTokens(BUYER_SECRET, SKEW_S)
    first, second = hmac_token(USUAL, head), hmac_token(USUAL | {"sub": "bob", "tier": 2, "iat": NOW, "x": {}}, head)
    assert quick.read(first, NOW) is None
    quick.learn(first)
    read = quick.read(second, NOW)
    assert read is not None
    assert (read.sub, read.tier, read.exp) == ("bob", 2, NOW + 600)
    assert quick.read(second + "A", NOW) is None
    assert quick.read(hmac_token(USUAL, head, secret="x" * 32), NOW) is None


def test_heads_that_change_how_the_rest_is_read_are_never_learned_nor_more_than_a_few() -> None:
    quick = QuickTokens(BUYER_SECRET, SKEW_S)
    for head in ODD_HEADS:
        if head.get("alg") == "HS256":
            quick.learn(hmac_token(USUAL, head))
            assert quick.read(hmac_token(USUAL, head), NOW) is None
    for number in range(HEADS_MAX + 5):
        quick.learn(hmac_token(USUAL, {"alg": "HS256", "kid": str(number)}))
    assert quick.read(hmac_token(USUAL, {"alg": "HS256", "kid": "3"}), NOW) is not None
    assert quick.read(hmac_token(USUAL, {"alg": "HS256", "kid": str(HEADS_MAX + 1)}), NOW) is None
