"""The sandbox's payments: each key takes effect once, and is stored before the response.

Everything is in memory and written through to the store. A single process owns it and operations contain no await, so
they never interleave.
"""

import secrets
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.lab.sandbox.entry import Entry, Event, RefundEntry
from holdfast.lab.sandbox.store import Store
from holdfast.payments.port import Charge, PaymentState
from holdfast.payments.sandbox.refused import Refused

Watch = Callable[[Entry], None]


class SandboxLedger:
    def __init__(self, store: Store, watch: Watch) -> None:
        """`watch` is called on every change of state."""
        self._store = store
        self._watch = watch
        self._entries: list[Entry] = []
        self._numbers: dict[str, int] = {}
        self._references: dict[str, int] = {}
        for entry in store.load():
            self._index(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def page(self, after: int, limit: int) -> Sequence[Entry]:
        return self._entries[after : after + limit]

    def last(self, count: int) -> Sequence[Entry]:
        return self._entries[: -count - 1 : -1]

    def find(self, key: str) -> Entry | None:
        number = self._numbers.get(key)
        return None if number is None else self._settled(self._entries[number])

    def find_reference(self, reference: str) -> Entry | None:
        number = self._references.get(reference)
        return None if number is None else self._settled(self._entries[number])

    def authorise(
        self, charge: Charge, *, decline: str | None = None, pending_ms: int = 0, asks_bank: bool = False
    ) -> Entry | Refused:
        known = self.find(charge.key)
        if known is not None:
            return known if known.charge == charge else _reused(known)
        is_pending = pending_ms > 0 or asks_bank
        state = PaymentState.DECLINED if decline else PaymentState.PENDING if is_pending else PaymentState.AUTHORISED
        entry = Entry(
            charge.key, len(self._entries), f"sbx_{secrets.token_hex(12)}", charge, state, charge.amount, decline,
            pending_until_ms=_now_ms() + pending_ms if pending_ms else 0, asks_bank=asks_bank,
        )  # fmt: skip
        return self._write(entry, state.value, charge.amount)

    def answer_bank(self, reference: str, *, approved: bool) -> Entry | None:
        """Records the buyer's answer. A second answer changes nothing."""
        entry = self.find_reference(reference)
        if entry is None or not entry.asks_bank or entry.state is not PaymentState.PENDING:
            return entry
        state = PaymentState.AUTHORISED if approved else PaymentState.DECLINED
        return self._write(
            replace(entry, state=state, reason=None if approved else "authentication_failed"), state.value, entry.amount
        )

    def capture(self, key: str) -> Entry | Refused:
        entry = self.find(key)
        if entry is None or entry.state is PaymentState.CAPTURED:
            return entry or _unknown(key)
        if entry.state is not PaymentState.AUTHORISED:
            return Refused(f"payment_{entry.state}", f"a {entry.state} payment cannot be captured", entry.payment())
        captures = entry.captures + 1
        captured = replace(entry, state=PaymentState.CAPTURED, captured=entry.amount, captures=captures)
        return self._write(captured, "captured", entry.amount)

    def void(self, key: str) -> Entry | Refused:
        entry = self.find(key)
        if entry is None or entry.state in (PaymentState.VOIDED, PaymentState.DECLINED):
            return entry or _unknown(key)
        if entry.state is PaymentState.CAPTURED:
            return Refused("payment_captured", "a captured payment can only be refunded", entry.payment())
        return self._write(replace(entry, state=PaymentState.VOIDED), "voided", entry.amount)

    def refund(self, payment_key: str, key: str, amount: int) -> RefundEntry | Refused:
        entry = self.find(payment_key)
        if entry is None:
            return _unknown(payment_key)
        done = next((refund for refund in entry.refunds if refund.key == key), None)
        if done is not None:
            return done if done.amount == amount else _reused(entry)
        left = entry.captured - entry.refunded
        if amount > left:
            return Refused("refund_too_large", f"{left} of this payment is left to refund", entry.payment())
        refund = RefundEntry(key, f"sbr_{secrets.token_hex(12)}", amount)
        refunds = (*entry.refunds, refund)
        self._write(replace(entry, refunded=entry.refunded + amount, refunds=refunds), "refunded", amount)
        return refund

    def _settled(self, entry: Entry) -> Entry:
        """A pending payment is authorised when it is read after its pending time."""
        if entry.state is PaymentState.PENDING and not entry.asks_bank and _now_ms() >= entry.pending_until_ms:
            return self._write(replace(entry, state=PaymentState.AUTHORISED), "authorised", entry.amount)
        return entry

    def _write(self, entry: Entry, what: str, amount: int) -> Entry:
        entry = replace(entry, history=(*entry.history, Event(_now_ms(), what, amount)))
        # Stored first: if that fails, the state is unchanged.
        self._store.save(entry)
        self._index(entry)
        self._watch(entry)
        return entry

    def _index(self, entry: Entry) -> None:
        self._entries[entry.number : entry.number + 1] = [entry]
        self._numbers[entry.key] = self._references[entry.reference] = entry.number


def _reused(entry: Entry) -> Refused:
    return Refused("key_reused", "this key was used before, for something else", entry.payment())


def _unknown(key: str) -> Refused:
    return Refused("not_found", f"no payment has the key {key}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
