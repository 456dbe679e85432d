# Generated from the endpoint table by `make docs`. Do not edit.

"""Types of the resource `console`."""

from datetime import datetime

from msgspec import Struct

from holdfast.client.types.operate_2 import Scope


class Session(Struct, frozen=True, kw_only=True):
    key_id: str | None = None  # Null for the admin key.
    name: str | None = None
    scopes: list[Scope]
    expires_at: datetime | None = None  # Null if a service key was sent instead.
