"""A refusal of the sandbox, as it is sent over HTTP."""

from msgspec import Struct

from holdfast.payments.port import Payment


class Refused(Struct, frozen=True):
    """Why nothing was changed, and the current payment, if there is one."""

    error: str
    detail: str
    payment: Payment | None = None
