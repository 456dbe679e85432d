# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `revocations`."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    RevocationKind = Literal["buyer", "token"]
else:
    RevocationKind = str


class Revocation(Struct, frozen=True, kw_only=True):
    kind: RevocationKind  # `buyer`: every token of a buyer. `token`: one token.
    id: str  # The buyer's ID (`sub`) or the token's (`jti`).
    revoked_at: datetime
    expires_at: datetime
    reason: str | None = None
    revoked_by: str


class RevocationList(Struct, frozen=True, kw_only=True):
    data: list[Revocation]
