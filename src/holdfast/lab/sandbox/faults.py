"""Faults on demand: by rate for all requests, or by the payment method of one charge.

Whether a fault strikes depends on the seed, the kind of fault, the operation, its key, and the number of earlier
attempts. So the same seed gives the same faults in any order of requests, and a retry may succeed. A decline is
recorded, so it is final.

A method such as `pm_lost_reply` strikes at the first attempt to authorise, `pm_lost_reply_capture` at the first to
capture.
"""

import hashlib
import time
from collections import Counter
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

Rate = Annotated[float, Meta(ge=0, le=1)]
Milliseconds = Annotated[int, Meta(ge=0, le=3_600_000)]


class Operation(StrEnum):
    AUTHORISE = "authorise"
    CAPTURE = "capture"
    VOID = "void"
    REFUND = "refund"
    LOOK_UP = "look_up"


class Fault(StrEnum):
    DECLINE = "decline"
    PENDING = "pending"
    # The bank asks the buyer for confirmation, on the sandbox's page.
    BANK = "bank"
    SLOW = "slow"
    LOST_REPLY = "lost_reply"
    ERROR = "error"
    DUPLICATE_WEBHOOK = "duplicate_webhook"


_BY_NAME = {fault.value: fault for fault in Fault}


class Faults(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `PUT /faults`. It replaces all active faults; `{}` removes them."""

    seed: int = 0
    # Shares of the requests, from 0 to 1.
    decline: Rate = 0
    pending: Rate = 0
    bank: Rate = 0
    slow: Rate = 0
    lost_reply: Rate = 0
    error: Rate = 0
    duplicate_webhook: Rate = 0
    # The delay of a slow request, and how long a payment stays pending.
    slow_ms: Milliseconds = 1000
    pending_ms: Milliseconds = 1000
    # A lost reply closes the connection, or (silent) keeps it open until the client disconnects.
    lost_reply_silent: bool = False
    # Alternates between down and up, down first. With `up_ms` 0 it stays down.
    down_ms: Milliseconds = 0
    up_ms: Milliseconds = 0


class FaultPlan:
    """The active faults, and the number of attempts so far."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._since = time.monotonic()
        self._attempts: Counter[tuple[Operation, str]] = Counter()
        rates = {fault: float(getattr(faults, fault.value)) for fault in Fault}
        self._rates = {fault: rate for fault, rate in rates.items() if rate}

    def is_down(self) -> bool:
        faults = self.faults
        passed_ms = (time.monotonic() - self._since) * 1000
        return faults.down_ms > 0 and (
            faults.up_ms == 0 or passed_ms % (faults.down_ms + faults.up_ms) < faults.down_ms
        )

    def strikes(self, operation: Operation, key: str, method: str | None) -> set[Fault]:
        """The faults that strike this attempt."""
        named = _named_by(method, operation)
        if named is None and not self._rates:
            return set()
        attempt = self._attempts[operation, key]
        self._attempts[operation, key] += 1
        struck = {fault for fault, rate in self._rates.items() if self._chance(fault, operation, key, attempt) < rate}
        return struck | {named} if named is not None and attempt == 0 else struck

    def doubles_webhook(self, webhook_id: str, method: str | None) -> bool:
        if _named_by(method, Operation.AUTHORISE) is Fault.DUPLICATE_WEBHOOK:
            return True
        rate = self._rates.get(Fault.DUPLICATE_WEBHOOK, 0)
        return self._chance(Fault.DUPLICATE_WEBHOOK, "webhook", webhook_id, 0) < rate

    def _chance(self, fault: Fault, operation: str, key: str, attempt: int) -> float:
        text = f"{self.faults.seed} {fault} {operation} {attempt} {key}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64


def _named_by(method: str | None, operation: Operation) -> Fault | None:
    if method is None or not method.startswith("pm_"):
        return None
    name = method.removeprefix("pm_")
    if operation is Operation.AUTHORISE and name in _BY_NAME:
        return _BY_NAME[name]
    fault = name.removesuffix(f"_{operation}")
    return _BY_NAME.get(fault) if fault != name else None
