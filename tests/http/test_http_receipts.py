"""Receipts: made by hand, read by the library, and believed only when they are ours."""

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from holdfast.access.receipts import TYPE, Receipt, Receipts
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.errors import SettingsError
from holdfast.runtime.signing import base64url, parse_signing_keys
from holdfast.settings import load_settings

SECRET, OTHER = "s" * 32, "o" * 32
GRANTED = Reservation("rsv_1_sku", "sku", "Zoë 🎟", 2, Status.ACTIVE, 1_700_000_000_000, 1_700_000_300_000)


def receipts(text: str) -> Receipts:
    return Receipts(parse_signing_keys(text))


def test_a_receipt_says_whose_and_which() -> None:
    assert receipts(SECRET).read(receipts(SECRET).sign(GRANTED)) == Receipt("rsv_1_sku", "Zoë 🎟", 2, 1_700_000_000)


def test_the_same_hold_has_the_same_receipt() -> None:
    assert receipts(SECRET).sign(GRANTED) == receipts(SECRET).sign(GRANTED)


def test_after_rotation_the_old_key_is_believed_and_the_new_one_signs() -> None:
    old, rotating, new = receipts(f"a:{SECRET}"), receipts(f"b:{OTHER},a:{SECRET}"), receipts(f"b:{OTHER}")
    assert rotating.read(old.sign(GRANTED)) is not None
    assert new.read(rotating.sign(GRANTED)) is not None
    assert new.read(old.sign(GRANTED)) is None


def test_what_is_not_ours_is_nothing() -> None:
    good = receipts(SECRET).sign(GRANTED)
    odd_headers = [base64url(header).decode() + ".e30.x" for header in (b'["alg"]', b'{"alg":"HS256","crit":1}', b"1")]
    for spoilt in ("", "x", good[:-3], good.replace(".", ""), good.upper(), good + ".", *odd_headers):
        assert receipts(SECRET).read(spoilt) is None


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "HS256", "kid": "a"},
        {"alg": "HS256", "kid": "a", "typ": "JWT"},
        {"alg": "HS512", "kid": "a", "typ": TYPE},
    ],
)
def test_a_token_of_another_kind_is_no_receipt(header: dict[str, str]) -> None:
    key = OctKey.import_key(SECRET)
    token = jwt.encode(header, {"jti": "rsv_1_sku", "sub": "ada"}, key, algorithms=[header["alg"]])
    assert receipts(f"a:{SECRET}").read(token) is None


@pytest.mark.parametrize("text", ["short", f"a:{SECRET},b:short", "a:"])
def test_a_signing_key_that_can_be_guessed_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_SIGNING_KEY"):
        load_settings(signing_key=text)
