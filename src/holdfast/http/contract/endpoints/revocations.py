"""Revoked buyers and tokens."""

from functools import partial

from holdfast.http.contract import problems
from holdfast.http.contract.endpoint import OPERATE, READ_OPERATE, Answers, Endpoint, Priority
from holdfast.http.contract.schemas.revocations import RevocationIn, RevocationList, RevocationOut

_endpoint = partial(Endpoint, tag="team", priority=Priority.CONSOLE, problems=(problems.NOT_READY,))
_SINCE = "This server refuses it from the next request on (401 `unauthorized`), the others within a second."

LIST_REVOCATIONS = _endpoint(
    "list_revocations",
    "GET /v1/ops/revocations",
    summary="Buyers and tokens that are revoked, newest first",
    description="The newest thousand.",
    access=READ_OPERATE,
    answers={200: Answers("Those in force", RevocationList)},
)
REVOKE_BUYER = _endpoint(
    "revoke_buyer",
    "PUT /v1/ops/revocations/buyers/{buyer_id:rest}",
    summary="Refuse every token of a buyer",
    description=f"Until it expires, tokens signed later included. {_SINCE} What the buyer holds or ordered stays as it "
    "is. A repeat replaces the expiry and the reason.",
    access=OPERATE,
    body=RevocationIn,
    answers={200: Answers("Revoked", RevocationOut)},
)
RESTORE_BUYER = _endpoint(
    "restore_buyer",
    "DELETE /v1/ops/revocations/buyers/{buyer_id:rest}",
    summary="Accept a buyer's tokens again",
    description="A repeat changes nothing.",
    access=OPERATE,
    answers={204: Answers("Accepted again")},
)
REVOKE_TOKEN = _endpoint(
    "revoke_token",
    "PUT /v1/ops/revocations/tokens/{token_id:rest}",
    summary="Refuse one token of a buyer, by its `jti`",
    description=f"The buyer's other tokens stay valid. {_SINCE} A repeat replaces the expiry and the reason.",
    access=OPERATE,
    body=RevocationIn,
    answers={200: Answers("Revoked", RevocationOut)},
)
RESTORE_TOKEN = _endpoint(
    "restore_token",
    "DELETE /v1/ops/revocations/tokens/{token_id:rest}",
    summary="Accept a token again",
    description="A repeat changes nothing.",
    access=OPERATE,
    answers={204: Answers("Accepted again")},
)
