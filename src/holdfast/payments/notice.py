"""What a provider tells us unasked. It only says where to look: the truth is what `look_up` finds."""

from msgspec import Struct


class Notice(Struct, frozen=True):
    """`id` is the same if the provider tells it twice. `kind` is the provider's name for what happened."""

    id: str
    kind: str
    key: str | None


class NoticeRefused(Exception):
    """A call that claims to be from the provider and is forged, stale or malformed."""
