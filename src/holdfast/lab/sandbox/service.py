"""The sandbox's HTTP interface, independent of the server it runs on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta, Struct

from holdfast.lab.sandbox.entry import Entry, RefundEntry
from holdfast.lab.sandbox.faults import Fault, FaultPlan, Faults, Operation
from holdfast.lab.sandbox.ledger import SandboxLedger
from holdfast.lab.sandbox.page import bank_page, page
from holdfast.payments.port import Charge, ListedPayment, PaymentPage, Refund
from holdfast.payments.sandbox.refused import Refused

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Amount = Annotated[int, Meta(gt=0, le=10**12)]
DECLINE_REASON = "card_declined"
PAGE_MAX = 10_000
CHARGES_MAX = 50


class ChargeRequest(Struct, forbid_unknown_fields=True):
    key: Name
    amount: Amount
    currency: Annotated[str, Meta(pattern="^[A-Za-z]{3}$")]
    buyer_id: str = ""
    reservation_id: str = ""
    sale_id: str = ""
    method: str | None = None
    purchase_key: str | None = None
    purchase_fingerprint: str | None = None
    ledger_mark: str | None = None


class KeyRequest(Struct, forbid_unknown_fields=True):
    key: Name


class RefundRequest(Struct, forbid_unknown_fields=True):
    payment_key: Name
    key: Name
    amount: Amount


class Reply(Struct):
    status: int
    body: bytes
    content_type: str = "application/json"


class LostReply(Struct):
    """The operation was executed, but its response is dropped."""

    is_silent: bool


Outcome = Reply | LostReply
Route = Callable[[str, bytes], Awaitable[Outcome]]
_decode_charge = msgspec.json.Decoder(ChargeRequest).decode
_decode_key = msgspec.json.Decoder(KeyRequest).decode
_decode_refund = msgspec.json.Decoder(RefundRequest).decode
_decode_faults = msgspec.json.Decoder(Faults).decode
_encode = msgspec.json.Encoder().encode


class Service:
    def __init__(self, ledger: SandboxLedger, plan: FaultPlan) -> None:
        self.ledger = ledger
        self.plan = plan
        self._routes: dict[tuple[str, str], Route] = {
            ("POST", "/authorise"): self._authorise,
            ("POST", "/capture"): self._capture,
            ("POST", "/void"): self._void,
            ("POST", "/refund"): self._refund,
            ("GET", "/payments"): self._look_up,
            ("GET", "/books"): self._read_books,
            ("GET", "/charges"): self._list_charges,
            ("GET", "/faults"): self._read_faults,
            ("PUT", "/faults"): self._set_faults,
            ("GET", "/"): self._page,
        }

    async def answer(self, method: str, path: str, query: str, body: bytes) -> Outcome:
        if path.startswith("/bank/"):
            return self._bank(method, path.removeprefix("/bank/"), query, body)
        route = self._routes.get((method, path))
        if route is None:
            return _refusal(404, Refused("no_such_call", f"there is no {method} {path} here; see GET /"))
        try:
            return await route(query, body)
        except ValueError as exc:  # msgspec also raises it for a body that it cannot parse.
            return _refusal(422, Refused("invalid_request", str(exc)))

    async def _authorise(self, _query: str, body: bytes) -> Outcome:
        charge = Charge(**msgspec.structs.asdict(_decode_charge(body)))

        def work(struck: set[Fault]) -> Entry | Refused:
            decline = DECLINE_REASON if Fault.DECLINE in struck else None
            pending_ms = self.plan.faults.pending_ms if Fault.PENDING in struck else 0
            asks_bank = Fault.BANK in struck
            return self.ledger.authorise(charge, decline=decline, pending_ms=pending_ms, asks_bank=asks_bank)

        return await self._perform(Operation.AUTHORISE, charge.key, charge.method, work)

    async def _capture(self, _query: str, body: bytes) -> Outcome:
        key = _decode_key(body).key
        return await self._perform(Operation.CAPTURE, key, self._method(key), lambda _: self.ledger.capture(key))

    async def _void(self, _query: str, body: bytes) -> Outcome:
        key = _decode_key(body).key
        return await self._perform(Operation.VOID, key, self._method(key), lambda _: self.ledger.void(key))

    async def _refund(self, _query: str, body: bytes) -> Outcome:
        asked = _decode_refund(body)
        return await self._perform(
            Operation.REFUND,
            asked.key,
            self._method(asked.payment_key),
            lambda _: self.ledger.refund(asked.payment_key, asked.key, asked.amount),
        )

    async def _look_up(self, query: str, _body: bytes) -> Outcome:
        given = _parameters(query)
        reference, key = given.get("reference"), given.get("key", "")

        def work(_struck: set[Fault]) -> Entry | Refused:
            found = self.ledger.find(key) if reference is None else self.ledger.find_reference(reference)
            return found or Refused("not_found", "no payment has this key or reference")

        return await self._perform(Operation.LOOK_UP, key, self._method(key), work)

    def _method(self, key: str) -> str | None:
        entry = self.ledger.find(key)
        return None if entry is None else entry.charge.method

    async def _perform(
        self,
        operation: Operation,
        key: str,
        method: str | None,
        work: Callable[[set[Fault]], Entry | RefundEntry | Refused],
    ) -> Outcome:
        plan = self.plan
        if plan.is_down():
            return _refusal(503, Refused("down", "the sandbox plays dead; nothing was done"))
        struck = plan.strikes(operation, key, method)
        if Fault.ERROR in struck:
            return _refusal(500, Refused("internal_error", "something broke"))
        if Fault.SLOW in struck:
            await asyncio.sleep(plan.faults.slow_ms / 1000)
        result = work(struck)
        return LostReply(plan.faults.lost_reply_silent) if Fault.LOST_REPLY in struck else _reply(result)

    async def _read_books(self, query: str, _body: bytes) -> Outcome:
        given = _parameters(query)
        after, limit = int(given.get("after", 0)), min(int(given.get("limit", 1000)), PAGE_MAX)
        if after < 0 or limit < 1:
            raise ValueError("after must be 0 or more, limit 1 or more")
        entries = self.ledger.page(after, limit)
        following = after + len(entries)
        return _json({"payments": entries, "next": following if following < len(self.ledger) else None})

    async def _list_charges(self, query: str, _body: bytes) -> Outcome:
        """Pages are small because clients read 64 KB at most."""
        given = _parameters(query)
        since, after = int(given.get("since", 0)), int(given.get("after", 0))
        entries = self.ledger.page(max(after, 0), CHARGES_MAX)
        found = [ListedPayment(e.payment(), e.charge, e.created_at) for e in entries if e.created_at >= since]
        following = after + len(entries)
        return _json(PaymentPage(found, str(following) if following < len(self.ledger) else None))

    async def _read_faults(self, _query: str, _body: bytes) -> Outcome:
        return _json(self.plan.faults)

    async def _set_faults(self, _query: str, body: bytes) -> Outcome:
        self.plan = FaultPlan(_decode_faults(body))
        return _json(self.plan.faults)

    def _bank(self, method: str, reference: str, query: str, body: bytes) -> Outcome:
        entry = self.ledger.find_reference(reference)
        if entry is None or not entry.asks_bank:
            return _refusal(404, Refused("not_found", "no bank asks about this payment"))
        if method == "POST":
            approved = _parameters(body.decode(errors="replace")).get("answer") == "approve"
            entry = self.ledger.answer_bank(reference, approved=approved) or entry
        return Reply(200, bank_page(entry, _parameters(query).get("return_to")).encode(), "text/html; charset=utf-8")

    async def _page(self, _query: str, _body: bytes) -> Outcome:
        return Reply(200, page(self.ledger, self.plan).encode(), "text/html; charset=utf-8")


def _parameters(query: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(query).items()}


def _reply(result: Entry | RefundEntry | Refused) -> Reply:
    if isinstance(result, Refused):
        return _refusal(404 if result.error == "not_found" else 409, result)
    if isinstance(result, RefundEntry):
        return _json(Refund(result.key, result.reference, result.amount, is_done=True))
    return _json(result.payment())


def _refusal(status: int, refused: Refused) -> Reply:
    return Reply(status, _encode(refused))


def _json(body: Any) -> Reply:
    return Reply(200, _encode(body))
