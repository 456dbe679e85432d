"""A provider's webhook. It only says which payment to look up; `look_up` determines the state."""

from msgspec import Struct


class Notice(Struct, frozen=True):
    """`id` is the same if the provider sends it twice. `kind` is the provider's name for the event."""

    id: str
    kind: str
    key: str | None


class NoticeRefused(Exception):
    """The webhook is forged, stale or malformed."""
