# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `revocations`."""

from datetime import datetime

from holdfast.client.call import Call, optional, path_of
from holdfast.client.types.revocations import Revocation, RevocationList


def list_revocations() -> Call[RevocationList]:
    """Buyers and tokens that are revoked, newest first.

    The newest thousand.
    """
    return Call(
        method="GET",
        path="/v1/ops/revocations",
        answers={200: (RevocationList,)},
    )


def revoke_buyer(
    buyer_id: str, *, expires_at: datetime | str | None = None, reason: str | None = None
) -> Call[Revocation]:
    """Refuse every token of a buyer.

    Until it expires, tokens signed later included. This server refuses it from the next request on (401
    `unauthorized`), the others within a second. What the buyer holds or ordered stays as it is. A repeat replaces
    the expiry and the reason.
    """
    return Call(
        method="PUT",
        path=path_of("/v1/ops/revocations/buyers/{buyer_id}", buyer_id),
        answers={200: (Revocation,)},
        body={"expires_at": optional(expires_at), "reason": optional(reason)},
    )


def restore_buyer(buyer_id: str) -> Call[None]:
    """Accept a buyer's tokens again.

    A repeat changes nothing.
    """
    return Call(
        method="DELETE",
        path=path_of("/v1/ops/revocations/buyers/{buyer_id}", buyer_id),
        answers={204: ()},
    )


def revoke_token(
    token_id: str, *, expires_at: datetime | str | None = None, reason: str | None = None
) -> Call[Revocation]:
    """Refuse one token of a buyer, by its `jti`.

    The buyer's other tokens stay valid. This server refuses it from the next request on (401 `unauthorized`), the
    others within a second. A repeat replaces the expiry and the reason.
    """
    return Call(
        method="PUT",
        path=path_of("/v1/ops/revocations/tokens/{token_id}", token_id),
        answers={200: (Revocation,)},
        body={"expires_at": optional(expires_at), "reason": optional(reason)},
    )


def restore_token(token_id: str) -> Call[None]:
    """Accept a token again.

    A repeat changes nothing.
    """
    return Call(
        method="DELETE",
        path=path_of("/v1/ops/revocations/tokens/{token_id}", token_id),
        answers={204: ()},
    )
