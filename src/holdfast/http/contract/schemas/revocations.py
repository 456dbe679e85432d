"""Revoked buyers and tokens."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.http.contract.schemas.copying import copy_fields
from holdfast.http.contract.schemas.values import PRINTABLE, Moment, Timestamp
from holdfast.ledger.access.revocations import Revocation, RevocationKind


class RevocationIn(Struct, frozen=True, forbid_unknown_fields=True):
    expires_at: (
        Annotated[
            Moment,
            Meta(
                description="In 30 days if left out: no token is valid for longer.", examples=["2100-01-01T00:00:00Z"]
            ),
        ]
        | None
    ) = None
    reason: (
        Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE, examples=["account stolen"])] | None
    ) = None


class RevocationOut(Struct, frozen=True):
    kind: Annotated[RevocationKind, Meta(description="`buyer`: every token of a buyer. `token`: one token.")]
    id: Annotated[str, Meta(description="The buyer's ID (`sub`) or the token's (`jti`).")]
    revoked_at: Timestamp
    expires_at: Timestamp
    reason: str | None
    revoked_by: str

    @classmethod
    def of(cls, revocation: Revocation) -> "RevocationOut":
        return copy_fields(cls, revocation)


class RevocationList(Struct, frozen=True):
    data: list[RevocationOut]
