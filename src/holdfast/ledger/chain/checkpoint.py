"""A checkpoint: the signed head of the chain, to be stored out of reach of anyone who can write to the ledger.

It is signed with Ed25519, so the public key can verify a checkpoint but not make one. The key is derived from the
signing key, like the one used for sealing (`runtime/sealing.py`).
"""

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import SettingsError
from holdfast.ledger.chain.links import Head
from holdfast.runtime.signing import SigningKey

_HKDF_INFO = b"holdfast checkpoint key 1"
_encode = msgspec.json.Encoder(order="deterministic").encode


class Checkpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """`ledger` is the incarnation, `at` the time by the clock of the server that signed."""

    ledger: str
    at: int
    links: int
    seq: int
    root: str
    public_key: str
    signature: str = ""

    @property
    def is_signed(self) -> bool:
        """Whether the key that it names signed it."""
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
            key.verify(bytes.fromhex(self.signature), _encode(replace(self, signature="")))
        except (InvalidSignature, ValueError):
            return False
        return True


class CheckpointKey:
    def __init__(self, key: SigningKey) -> None:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_HKDF_INFO).derive(key.secret.encode())
        self._key = Ed25519PrivateKey.from_private_bytes(derived)
        self.public_key = self._key.public_key().public_bytes_raw().hex()

    def sign(self, ledger: str, head: Head, at: int) -> Checkpoint:
        unsigned = Checkpoint(ledger, at, head.links, head.seq, head.root, self.public_key)
        return replace(unsigned, signature=self._key.sign(_encode(unsigned)).hex())


def parse_checkpoints(content: bytes, source: str, public_key: str | None = None) -> list[Checkpoint]:
    """One per line. All must be signed, by this key if one is given."""
    found = [each for each in map(_parse, content.splitlines()) if each is not None]
    if not found:
        raise SettingsError(f"{source} has no checkpoint")
    for checkpoint in found:
        if not checkpoint.is_signed or public_key not in (None, checkpoint.public_key):
            raise SettingsError(f"{source}: the checkpoint of {checkpoint.links} links has no valid signature")
    return found


def _parse(line: bytes) -> Checkpoint | None:
    """None for a line that was truncated by a crash."""
    try:
        return msgspec.json.decode(line, type=Checkpoint)
    except msgspec.MsgspecError:
        return None
