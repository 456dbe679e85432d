"""Revoking buyers and tokens."""

from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import Answer, Request, caller_of, json, no_content
from holdfast.http.contract.refusals import invalid_request
from holdfast.http.contract.schemas.revocations import RevocationIn, RevocationList, RevocationOut
from holdfast.ledger.access.revocations import KEPT_MS, Revocation, RevocationKind, lift, revocations, revoke

LISTED_MAX = 1_000


class RevocationEndpoints:
    def __init__(self, services: Services) -> None:
        # Shared by all cells, like sign-ins.
        self._database, self._revoked = services.control.database, services.control.revoked_buyers

    async def list(self, _request: Request) -> Answer:
        found = await self._database.read(lambda c: revocations(c, self._database.now_ms(c), limit=LISTED_MAX))
        return json(RevocationList([RevocationOut.of(one) for one in found]))

    async def revoke_buyer(self, request: Request, buyer_id: str, given: RevocationIn) -> Answer:
        return await self._revoke(request, RevocationKind.BUYER, buyer_id, given)

    async def restore_buyer(self, _request: Request, buyer_id: str) -> Answer:
        return await self._lift(RevocationKind.BUYER, buyer_id)

    async def revoke_token(self, request: Request, token_id: str, given: RevocationIn) -> Answer:
        return await self._revoke(request, RevocationKind.TOKEN, token_id, given)

    async def restore_token(self, _request: Request, token_id: str) -> Answer:
        return await self._lift(RevocationKind.TOKEN, token_id)

    async def _revoke(self, request: Request, kind: RevocationKind, id_: str, given: RevocationIn) -> Answer:
        now = await self._database.read(self._database.now_ms)
        expires_at = now + KEPT_MS if given.expires_at is None else int(given.expires_at)
        if expires_at <= now:
            raise invalid_request({"expires_at": "must be in the future"})
        revocation = Revocation(kind, id_, now, expires_at, given.reason, caller_of(request).shown_name)
        await self._database.write(lambda c: revoke(c, revocation))
        await self._revoked.refresh()
        return json(RevocationOut.of(revocation))

    async def _lift(self, kind: RevocationKind, id_: str) -> Answer:
        await self._database.write(lambda c: lift(c, kind, id_))
        await self._revoked.refresh()
        return no_content()
