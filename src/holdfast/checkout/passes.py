"""Whether a buyer may purchase in a sale that has a waiting room."""

from collections.abc import Callable
from enum import Enum, auto

from holdfast.domain.sale.sale import RoomMode, Sale
from holdfast.room.snapshot import RoomSnapshot
from holdfast.room.tokens import Tokens


class Admission(Enum):
    ADMITTED = auto()
    # The pass was valid and has expired, or its holder left: a retry still gets its first answer.
    EXPIRED = auto()
    REFUSED = auto()


# As globals, because members of an enum are slow to find.
_NO_ROOM, _ADMITTED = RoomMode.OFF, Admission.ADMITTED


class Passes:
    def __init__(self, tokens: Tokens, rooms: RoomSnapshot, now_ms: Callable[[], int]) -> None:
        self._tokens = tokens
        self._rooms = rooms
        self._now_ms = now_ms

    def key_of(self, buyer_id: str, text: str) -> str | None:
        """The idempotency key of a purchase that has none: one for each pass."""
        given = self._tokens.read_any_pass(text, self._now_ms() / 1000)
        return None if given is None or given.sub != buyer_id else f"pass:{given.jti}"

    def check(self, sale: Sale, buyer_id: str, text: str | None) -> Admission:
        if sale.room.mode is _NO_ROOM:
            return _ADMITTED
        now_s = self._now_ms() / 1000
        given = None if text is None else self._tokens.read_any_pass(text, now_s)
        if given is None or (given.sub, given.sale) != (buyer_id, sale.line_id):
            return Admission.REFUSED
        is_valid = now_s < given.exp and not self._rooms.is_returned(sale.line_id, given.jti)
        return _ADMITTED if is_valid else Admission.EXPIRED

    async def recheck(self, sale: Sale, text: str | None) -> Admission:
        """For a pass that this process considers valid; its holder may have left through another process."""
        given = None if text is None else self._tokens.read_any_pass(text, self._now_ms() / 1000)
        if given is None or not await self._rooms.was_returned(sale.line_id, given.jti):
            return _ADMITTED
        return Admission.EXPIRED
