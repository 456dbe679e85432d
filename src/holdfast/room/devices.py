"""How many accounts may join a sale from one device.

A device is identified by a random token that the page creates (holdfast.js) and can reset, so this limit deters abuse
but cannot prevent it. Only a keyed hash of the token is stored, different in every sale, so that nobody can be tracked
across sales.
"""

import hmac
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256

from holdfast.ledger.engine.database import Database
from holdfast.ledger.room.device_accounts import DeviceClaim, claim_slots
from holdfast.runtime.batching import ONE_QUEUE, KeyedBatcher

CLAIMED_TOGETHER_MAX, CLAIMS_MAX = 256, 8_192
KNOWN_MAX = 100_000


class DeviceAccounts:
    def __init__(self, database: Database, secret: str, per_device: int) -> None:
        """0: no limit."""
        self.per_device = per_device
        self._database, self._secret = database, secret.encode()
        self._claims: KeyedBatcher[DeviceClaim, bool] = KeyedBatcher(
            self._claim, batch_max=CLAIMED_TOGETHER_MAX, queue_max=CLAIMS_MAX
        )
        # The buyers that this process accepted, by device; used while the store is unavailable.
        self._known: OrderedDict[tuple[str, str], set[str]] = OrderedDict()

    async def claim(self, sale_id: str, device: str, buyer_id: str) -> bool:
        """Whether the buyer is among the first accounts of the device. The answer stays the same."""
        claim = DeviceClaim(sale_id, self._mark(sale_id, device), buyer_id)
        if buyer_id in self._known.get((sale_id, claim.device), ()):
            return True
        is_ours = await self._claims.submit(ONE_QUEUE, claim)
        return is_ours and self._note(claim)

    def claim_here(self, sale_id: str, device: str, buyer_id: str) -> bool:
        """The same while the store is unavailable, among the accounts that this process knows."""
        return self._note(DeviceClaim(sale_id, self._mark(sale_id, device), buyer_id))

    def _note(self, claim: DeviceClaim) -> bool:
        if len(self._known) >= KNOWN_MAX:
            self._known.popitem(last=False)
        known = self._known.setdefault((claim.sale_id, claim.device), set())
        if len(known) < self.per_device:
            known.add(claim.buyer_id)
        return claim.buyer_id in known

    async def _claim(self, _queue: str, claims: Sequence[DeviceClaim], /) -> list[bool]:
        return await self._database.write(
            lambda c: claim_slots(c, claims, limit=self.per_device, now=self._database.now_ms(c))
        )

    def _mark(self, sale_id: str, device: str) -> str:
        return hmac.new(self._secret, f"holdfast device\n{sale_id}\n{device}".encode(), sha256).hexdigest()[:32]
