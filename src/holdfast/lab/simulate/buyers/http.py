"""Requests to the product's HTTP application in this process: routing, limits, endpoints and use cases, without a
socket.

Responses are parsed as a client would parse them and translated into domain terms, so that the same invariants apply.
"""

import asyncio
from typing import Any, ClassVar, cast

from msgspec import json

from holdfast.access.identity import Caller
from holdfast.checkout.purchase import Denied, Granted, Refused, Wanted
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome
from holdfast.domain.stock.reservation import Reservation, Status
from holdfast.errors import Busy, OutcomeUnknown, Unavailable
from holdfast.http.contract.message import Answer, ClientDisconnected, Headers, Request
from holdfast.lab.simulate.buyers.asking import Handle
from holdfast.lab.simulate.buyers.client import Client, Defect, Gone
from holdfast.lab.simulate.determinism import STARTED_S
from holdfast.lab.simulate.process import Process
from holdfast.lab.simulate.scenario import SALE_ID, SKU_ID
from holdfast.ledger.money.payment_notes import Method

_OUTCOMES = {
    "sold_out": Outcome.SOLD_OUT,
    "all_held": Outcome.ALL_HELD,
    "insufficient_inventory": Outcome.INSUFFICIENT,
    "buyer_limit": Outcome.BUYER_LIMIT,
    "hold_budget": Outcome.HOLD_BUDGET,
    "sale_paused": Outcome.PAUSED,
    "sale_ended": Outcome.ENDED,
    "sale_not_open": Outcome.NOT_OPEN,
    "idempotency_key_reused": Outcome.KEY_REUSED,
    "extension_limit": Outcome.EXTENSION_LIMIT,
    "reservation_not_found": Outcome.NOT_FOUND,
    **{f"reservation_{status}": Outcome.ILLEGAL for status in Status if status is not Status.ACTIVE},
}


class Connection:
    """The connection of a client that has sent its whole request."""

    BROKEN: ClassVar[type[Exception]] = ClientDisconnected

    def __init__(self, headers: dict[str, str], peer: str, client: Client) -> None:
        self._headers, self._peer, self._client = headers, peer, client

    def headers(self) -> Headers:
        return list(self._headers.items())

    def header(self, name: str) -> str | None:
        return self._headers.get(name)

    def header_lines(self, name: str) -> list[str]:
        return [self._headers[name]] if name in self._headers else []

    def peer(self) -> str:
        return self._peer

    async def read(self) -> bytes:
        return b""

    async def wait_disconnected(self) -> None:
        await asyncio.shield(self._client.gone)


class Problem(Exception):
    """A refusal that is not about stock; its text is the reason."""


class OverHttp:
    def purchase(self, wanted: Wanted) -> Handle:
        body = {"quantity": wanted.quantity, "min_quantity": wanted.min_quantity}
        headers = {} if wanted.pass_ is None else {"holdfast-pass": wanted.pass_}

        async def handle(process: Process, client: Client) -> Any:
            sent = body | _method(wanted.payment_method)
            answer = await _send(
                process, client, "POST", f"/v1/sales/{SALE_ID}/purchase", wanted.buyer_id, sent, headers, wanted.key
            )
            if answer.status in (200, 201):
                return _granted(answer, wanted.buyer_id)
            try:
                return Refused(cast("Any", None), Verdict(_outcome(answer)))
            except Problem as exc:
                return Denied.ADMISSION_REQUIRED if str(exc) == "admission_required" else exc

        return handle

    def extend(self, id_: str, buyer_id: str, seconds: int) -> Handle:
        return _move("POST", f"/v1/reservations/{id_}/extend", buyer_id, {"ttl_seconds": seconds})

    def cancel(self, id_: str, buyer_id: str) -> Handle:
        return _move("DELETE", f"/v1/reservations/{id_}", buyer_id)

    def pay(self, id_: str, buyer_id: str, method: Method | None) -> Handle:
        return _move("POST", f"/v1/reservations/{id_}/confirm", buyer_id, _method(method))

    def confirm(self, id_: str) -> Handle:
        return _move("POST", f"/v1/reservations/{id_}/confirm", None, {})

    def look(self, id_: str, buyer_id: str) -> Handle:
        async def handle(process: Process, client: Client) -> Any:
            answer = await _send(process, client, "GET", f"/v1/reservations/{id_}", buyer_id)
            if answer.status == 200:
                return _reservation(json.decode(answer.body), buyer_id)
            return None if _outcome(answer) is Outcome.NOT_FOUND else Defect(answer.body.decode())

        return handle

    def join(self, buyer_id: str) -> Handle:
        return _in_room("POST", "queue", buyer_id, {})

    def admit(self, buyer_id: str, ticket: str) -> Handle:
        return _in_room("POST", "admission", buyer_id, None, ticket)

    def leave(self, buyer_id: str, ticket: str) -> Handle:
        return _in_room("DELETE", "queue", buyer_id, None, ticket)


def _in_room(method: str, what: str, buyer_id: str, body: Any, ticket: str | None = None) -> Handle:
    """Returns the response document, or the reason of a refusal."""
    headers = {} if ticket is None else {"holdfast-ticket": ticket}

    async def handle(process: Process, client: Client) -> Any:
        answer = await _send(process, client, method, f"/v1/sales/{SALE_ID}/{what}", buyer_id, body, headers)
        if answer.status < 300:
            return json.decode(answer.body or b"{}")
        try:
            return str(_outcome(answer))
        except Problem as exc:
            return str(exc)

    return handle


def _move(method: str, path: str, buyer_id: str | None, body: Any = None) -> Handle:
    async def handle(process: Process, client: Client) -> Any:
        answer = await _send(process, client, method, path, buyer_id, body)
        try:
            return Verdict(Outcome.MOVED if answer.status < 300 else _outcome(answer))
        except Problem as exc:
            # Superseded by another payment of the same buyer, which was declined.
            if str(exc) == "payment_method_required":
                return str(exc)
            raise

    return handle


async def _send(
    process: Process,
    client: Client,
    method: str,
    path: str,
    buyer_id: str | None,
    body: Any = None,
    headers: dict[str, str] | None = None,
    key: str | None = None,
) -> Answer:
    """Sends a request as an authenticated buyer, or as the shop."""
    assert process.app is not None
    number = 1 if buyer_id is None else int(buyer_id.rpartition("-")[2]) + 2
    connection = Connection(headers or {}, f"198.51.100.{number}:40000", client)
    request = Request(
        method,
        path,
        "",
        connection,
        "req",
        authorization=f"Bearer {process.running.settings.service_key_text()}" if buyer_id is None else None,
        caller=None if buyer_id is None else Caller(buyer_id=buyer_id),
        idempotency_key=key,
        body=b"" if body is None else json.encode(body),
        arrived=STARTED_S + asyncio.get_running_loop().time(),
    )
    answer = await process.app.answer(request)
    if answer is None:
        raise Gone
    return answer


def _method(method: Method | None) -> dict[str, str]:
    return {} if method is None else {"payment_method": method.id}


def _granted(answer: Answer, buyer_id: str) -> Granted:
    return Granted(cast("Any", None), _reservation(json.decode(answer.body), buyer_id), is_repeat=answer.status == 200)


def _reservation(shown: dict[str, Any], buyer_id: str) -> Reservation:
    return Reservation(shown["reservation_id"], SKU_ID, buyer_id, shown["quantity"], Status(shown["status"]), 0, 0)


def _outcome(answer: Answer) -> Outcome:
    """The outcome that a refusal reports. Raises the engine error it stands for."""
    reason = json.decode(answer.body).get("reason")
    if answer.status == 500:
        raise Defect(answer.body.decode())
    if reason == "outcome_unknown":
        raise OutcomeUnknown(reason)
    if reason in ("busy", "rate_limited", "overloaded"):
        raise Busy(reason)
    if answer.status == 503:
        raise Unavailable(reason)
    if reason not in _OUTCOMES:
        raise Problem(reason)
    return _OUTCOMES[reason]
