"""Tickets and passes: ours, of their kind, for their sale and buyer, in time; anything else is nothing."""

import base64
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from holdfast.room import tokens as module
from holdfast.room.tokens import Pass, Ticket, Tokens
from holdfast.runtime.signing import base64url, parse_signing_keys

NOW = 1_700_000_000
OLD, NEW = "old:" + "a" * 32, "new:" + "b" * 32
TICKET = Ticket("ada", "drop", "ticket-1", 7, NOW, NOW + 600, "0" * 64, 12)
PASS = Pass("ada", "drop", "ticket-1", NOW, NOW + 300)


def tokens(text: str = OLD) -> Tokens:
    return Tokens(parse_signing_keys(text))


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, claims, signature = token.split(".")
    return decoded(head), decoded(claims), signature


def decoded(part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def test_what_was_signed_can_be_read() -> None:
    ours, reader = tokens(), tokens()
    assert reader.read_ticket(ours.sign_ticket(TICKET), NOW) == TICKET
    assert reader.read_any_pass(ours.sign_pass(PASS), NOW) == PASS


def test_the_library_and_anyone_with_the_public_keys_agree() -> None:
    ours = tokens()
    keys = KeySet.import_key_set(json.loads(json.dumps(ours.jwks)))
    found = jwt.decode(ours.sign_pass(PASS), keys, algorithms=["Ed25519"])
    assert len(found.claims.pop("edge")) == 24
    assert found.claims == {"sub": "ada", "sale": "drop", "jti": "ticket-1", "iat": NOW, "exp": NOW + 300}
    secret = OctKey.import_key("a" * 32)
    assert jwt.decode(ours.sign_ticket(TICKET), secret, algorithms=["HS256"]).claims["arrival"] == 7


def test_what_is_published_is_public_only() -> None:
    [key] = tokens().jwks["keys"]
    assert key.keys() == {"kty", "crv", "x", "kid", "alg", "use"}
    assert "a" * 32 not in json.dumps(key)


def test_keys_rotate_and_nobody_is_logged_out() -> None:
    ticket, given = tokens(OLD).sign_ticket(TICKET), tokens(OLD).sign_pass(PASS)
    both = tokens(f"{NEW},{OLD}")
    assert (both.read_ticket(ticket, NOW), both.read_any_pass(given, NOW)) == (TICKET, PASS)
    assert parts(both.sign_ticket(TICKET))[0]["kid"] == "new"
    assert [key["kid"] for key in both.jwks["keys"]] == ["new-pass", "old-pass"]
    # A server that has not heard of the new key yet, and one that has forgotten the old one.
    assert tokens(OLD).read_ticket(both.sign_ticket(TICKET), NOW) is None
    assert (tokens(NEW).read_ticket(ticket, NOW), tokens(NEW).read_any_pass(given, NOW)) == (None, None)


Forge = Callable[[dict[str, Any], dict[str, Any]], str]
PUBLIC = tokens().jwks["keys"][0]
OURS = module._pass_key(parse_signing_keys(OLD)[0])
STRANGER = Ed25519PrivateKey.generate()


def signed(head: dict[str, Any], claims: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """By hand: the library would not make what it should refuse."""
    content = f"{encoded(head)}.{encoded(claims)}"
    return f"{content}.{base64url(sign(content.encode())).decode()}"


def as_pass(head: dict[str, Any], claims: dict[str, Any]) -> str:
    """Signed with the right key: only what it says can be wrong."""
    return signed(head, claims, OURS.sign)


def hs256(head: dict[str, Any], claims: dict[str, Any], secret: str = "a" * 32) -> str:
    key = secret.encode()
    return signed(head | {"alg": "HS256"}, claims, lambda content: hmac.digest(key, content, "sha256"))


def unsigned(head: dict[str, Any], claims: dict[str, Any]) -> str:
    return f"{encoded(head | {'alg': 'none'})}.{encoded(claims)}."


def own_key(head: dict[str, Any], claims: dict[str, Any]) -> str:
    """The key that a pass says it should be checked with is not listened to."""
    point = base64url(STRANGER.public_key().public_bytes_raw()).decode()
    return signed(head | {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": point}}, claims, STRANGER.sign)


def without(given: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != name}


FORGED_PASSES: dict[str, Forge] = {
    "alg none": unsigned,
    "alg swapped for the secret's": hs256,
    "alg swapped, keyed with the public key": lambda h, c: hs256(h, c, PUBLIC["x"]),
    "foreign key": own_key,
    "foreign key id": lambda h, c: as_pass(h | {"kid": "other"}, c),
    "no key id": lambda h, c: as_pass(without(h, "kid"), c),
    "the key id of tickets": lambda h, c: as_pass(h | {"kid": "old"}, c),
    "a ticket's type": lambda h, c: as_pass(h | {"typ": "holdfast-ticket"}, c),
    "no type": lambda h, c: as_pass(without(h, "typ"), c),
    "no exp": lambda h, c: as_pass(h, without(c, "exp")),
    "no iat": lambda h, c: as_pass(h, without(c, "iat")),
    "no sale": lambda h, c: as_pass(h, without(c, "sale")),
    "no buyer": lambda h, c: as_pass(h, without(c, "sub")),
    "exp as text": lambda h, c: as_pass(h, c | {"exp": str(c["exp"])}),
    "exp far away": lambda h, c: as_pass(h, c | {"exp": NOW + 400 * 86_400}),
    "exp endless": lambda h, c: as_pass(h, c | {"exp": 10**30}),
    "exp before iat": lambda h, c: as_pass(h, c | {"exp": NOW - 10}),
    "from the future": lambda h, c: as_pass(h, c | {"iat": NOW + 3_600, "exp": NOW + 3_700}),
    "changed claims": lambda h, c: ".".join(
        [encoded(h), encoded(c | {"sub": "eve"}), tokens().sign_pass(PASS).split(".")[2]]
    ),
    "crit": lambda h, c: as_pass(h | {"crit": ["exp"], "exp": 1}, c),
    "too long": lambda h, c: as_pass(h, c | {"pad": "x" * 3_000}),
    "not a token": lambda _h, _c: "a.b.c",
    "empty": lambda _h, _c: "",
    "text": lambda _h, _c: "🙈" * 10,
}


@pytest.mark.parametrize("name", FORGED_PASSES)
def test_a_forged_pass_is_no_pass(name: str) -> None:
    head, claims, _ = parts(tokens().sign_pass(PASS))
    assert tokens().read_any_pass(as_pass(head, claims), NOW) == PASS
    assert tokens().read_any_pass(FORGED_PASSES[name](head, claims), NOW) is None


def test_tickets_and_passes_are_not_each_other() -> None:
    ours = tokens()
    assert ours.read_any_pass(ours.sign_ticket(TICKET), NOW) is None
    assert ours.read_ticket(ours.sign_pass(PASS), NOW) is None
    assert (
        ours.read_ticket(hs256({"kid": "old", "typ": "holdfast-receipt"}, parts(ours.sign_ticket(TICKET))[1]), NOW)
        is None
    )


@pytest.mark.parametrize(("at", "is_good"), [(-29, True), (-31, False), (600, True), (629, True), (630, False)])
def test_a_little_difference_between_clocks_is_allowed(at: int, is_good: bool) -> None:
    text = tokens().sign_ticket(TICKET)
    assert (tokens().read_ticket(text, NOW + at) is not None) is is_good


def test_a_pass_read_before_costs_next_to_nothing_and_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 100)
    texts = [tokens().sign_pass(Pass(f"b{n}", "drop", "t", NOW, NOW + 300)) for n in range(150)]
    reader = tokens()
    started = time.process_time()
    for text in texts[:50]:
        reader.read_any_pass(text, NOW)
    first = time.process_time() - started
    started = time.process_time()
    for text in texts[:50]:
        reader.read_any_pass(text, NOW)
    assert time.process_time() - started < first / 5
    for text in texts:
        assert reader.read_any_pass(text, NOW) is not None
    assert len(reader._passes.known) <= 100
