"""The payment provider of a run: the sandbox's own records, behind a channel that loses requests and replies."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.lab.sandbox.entry import Entry, RefundEntry
from holdfast.lab.sandbox.ledger import SandboxLedger
from holdfast.lab.sandbox.service import CHARGES_MAX, DECLINE_REASON
from holdfast.lab.simulate.channel import Channel, NoAnswer, NotReached
from holdfast.lab.simulate.faults import Fault, Kind
from holdfast.lab.simulate.loop import HOST, Host
from holdfast.payments.port import (
    Charge,
    ListedPayment,
    Payment,
    PaymentPage,
    PaymentState,
    Refund,
    RefundRefused,
)
from holdfast.payments.sandbox.refused import Refused

T = TypeVar("T")


class InMemory:
    """The sandbox's store; nothing is kept after the run."""

    def load(self) -> Iterator[Entry]:
        return iter(())

    def save(self, entry: Entry) -> None:
        """The entry is already in the sandbox's memory."""


class SimulatedProvider:
    """One process's client of the provider."""

    def __init__(self, books: SandboxLedger, channel: Channel, timeout_s: float) -> None:
        self._books, self._channel, self._timeout_s = books, channel, timeout_s
        self._host = Host("provider")

    async def _call(self, what: str, key: str, carry_out: Callable[[Fault | None], T]) -> T:
        def unless_refused(fault: Fault | None) -> T:
            if fault is not None and fault.kind is Kind.REFUSED:
                raise OutcomeUnknown("the provider answered 500")
            # The provider has its own clock, whatever the caller's clock says.
            token = HOST.set(self._host)
            try:
                return carry_out(fault)
            finally:
                HOST.reset(token)

        try:
            return await self._channel.call(f"{what} {key}", unless_refused, self._timeout_s)
        except NotReached as exc:
            raise Unavailable(str(exc)) from exc
        except NoAnswer as exc:
            raise OutcomeUnknown(str(exc)) from exc

    async def authorise(self, charge: Charge) -> Payment:
        def carry_out(fault: Fault | None) -> Payment:
            kind = None if fault is None else fault.kind
            decline = DECLINE_REASON if kind is Kind.DECLINED or charge.method == "pm_decline" else None
            pending_ms = round(fault.by * 1000) if fault is not None and kind is Kind.PENDING else 0
            return _payment(charge.key, self._books.authorise(charge, decline=decline, pending_ms=pending_ms))

        return await self._call("authorise", charge.key, carry_out)

    async def capture(self, payment: Payment) -> Payment:
        captured = await self._call(
            "capture", payment.key, lambda _: _payment(payment.key, self._books.capture(payment.key))
        )
        if captured.state in (PaymentState.AUTHORISED, PaymentState.PENDING):
            raise OutcomeUnknown(f"{payment.key} was not captured, and is {captured.state}")
        return captured

    async def void(self, payment: Payment) -> Payment:
        return await self._call("void", payment.key, lambda _: _payment(payment.key, self._books.void(payment.key)))

    async def refund(self, payment: Payment, amount: int, key: str) -> Refund:
        def carry_out(_fault: Fault | None) -> Refund:
            done = self._books.refund(payment.key, key, amount)
            if isinstance(done, RefundEntry):
                return Refund(done.key, done.reference, done.amount, is_done=True)
            raise RefundRefused(f"{done.error}: {done.detail}")

        return await self._call("refund", key, carry_out)

    async def look_up(self, key: str, reference: str | None = None) -> Payment | None:
        def carry_out(_fault: Fault | None) -> Payment | None:
            found = self._books.find(key)
            return None if found is None else found.payment()

        return await self._call("look_up", key, carry_out)

    async def next_action(self, key: str, reference: str) -> None:
        """The simulated provider never redirects to a bank."""

    async def list_since(self, since: int, after: str | None = None) -> PaymentPage:
        def carry_out(_fault: Fault | None) -> PaymentPage:
            start = int(after or 0)
            entries = self._books.page(start, CHARGES_MAX)
            found = [ListedPayment(e.payment(), e.charge, e.created_at) for e in entries if e.created_at >= since]
            following = start + len(entries)
            return PaymentPage(found, str(following) if following < len(self._books) else None)

        return await self._call("list", "", carry_out)

    async def close(self) -> None:
        """Nothing to close."""


def _payment(key: str, answer: Entry | Refused) -> Payment:
    """Reads the answer as the sandbox's client does: a refusal carries the payment in its current state."""
    if isinstance(answer, Entry):
        return answer.payment()
    if answer.payment is not None:
        return answer.payment
    raise OutcomeUnknown(f"the provider refused {key}: {answer.error}")
