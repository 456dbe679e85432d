"""Our own HMAC is the standard one, for keys and messages of any length."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.signing import Mac


@given(secret=st.binary(max_size=200), message=st.binary(max_size=400))
def test_a_mac_is_that_of_the_standard_library(secret: bytes, message: bytes) -> None:
    assert Mac(secret).digest(message) == hmac.digest(secret, message, hashlib.sha256)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 128])
def test_keys_around_the_size_of_a_block(length: int) -> None:
    assert Mac(b"k" * length).digest(b"m") == hmac.digest(b"k" * length, b"m", hashlib.sha256)


def test_one_mac_signs_many_messages() -> None:
    mac, messages = Mac(b"secret"), (b"a", b"b", b"a")
    assert [mac.digest(m) for m in messages] == [hmac.digest(b"secret", m, "sha256") for m in messages]
