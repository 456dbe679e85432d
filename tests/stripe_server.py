"""A small honest imitation of Stripe: the calls we make, over a real socket.

It speaks form encoding, keeps the first answer to each Idempotency-Key (failures that began included), and gives
errors in Stripe's shape. Search sees an intent only when it was indexed, as Stripe's lags behind. What a card does is
named by its payment method or confirmation token, as with Stripe's test cards. For browsers it serves a stand-in for
Stripe.js, and a bank that asks in a frame; with `webhook_url` it sends signed webhooks, as often as `webhook_times`.
"""

import asyncio
import json
import re
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from stripe import WebhookSignature

API_KEY = "sk_test_holdfast"
PUBLISHABLE_KEY = "pk_test_holdfast"
WEBHOOK_SECRET = "whsec_" + "c2VjcmV0" * 4
SCRIPT = Path(__file__).parent / "stripe_element.js"
# Stripe's test cards.
CARDS = {"4242424242424242": "visa", "4000000000000002": "declined", "4000002760003184": "bank"}
BANK_PAGE = """<!doctype html><html lang="en"><title>Bank</title><h1>Your bank asks</h1>
<form method="post"><button name="answer" value="approve">Approve</button>
<button name="answer" value="refuse">Refuse</button></form>"""
ANSWERED_PAGE = """<!doctype html><html lang="en"><title>Bank</title>
<script>parent.postMessage("answered", "*")</script>"""
SLOW_S = 1.0
DECLINES = {
    "pm_card_chargeDeclined": "generic_decline",
    "pm_card_chargeDeclinedInsufficientFunds": "insufficient_funds",
    "ctoken_declined": "generic_decline",
}
STATUS = {"pm_processing": "processing", "pm_needs_action": "requires_action", "ctoken_bank": "requires_action"}


class StripeError(Exception):
    def __init__(self, status: int, kind: str, code: str, **more: Any) -> None:
        super().__init__(code)
        self.status = status
        self.body = {"error": {"type": kind, "code": code, "message": f"imitation: {code}", **more}}


class CutOff(Response):
    """Promises more than it sends, so the server closes the connection: the reply is lost."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})


class StripeServer:
    def __init__(self) -> None:
        self.url = ""
        self.intents: dict[str, dict[str, Any]] = {}
        self.refunds: list[dict[str, Any]] = []
        self.captures: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.indexed: set[str] = set()
        self.lose_next: set[str] = set()
        self.webhook_url, self.webhook_times, self.posts_webhooks = "", 1, True
        self._tokens = 0
        self._answers: dict[str, tuple[list[tuple[str, str]], int, dict[str, Any]]] = {}
        self._running: set[str] = set()
        self.app = Starlette(
            routes=[
                Route("/v1/payment_intents", self._post(self._create), methods=["POST"]),
                Route("/v1/payment_intents", self._get(self._list), methods=["GET"]),
                Route("/v1/payment_intents/search", self._get(self._search)),
                Route("/v1/payment_intents/{id}", self._get(self._retrieve)),
                Route("/v1/payment_intents/{id}/capture", self._post(self._capture), methods=["POST"]),
                Route("/v1/payment_intents/{id}/cancel", self._post(self._cancel), methods=["POST"]),
                Route("/v1/refunds", self._post(self._refund), methods=["POST"]),
                Route("/v1/refunds", self._get(self._list_refunds), methods=["GET"]),
                Route("/v1/confirmation_tokens", self._make_token, methods=["POST"]),
                Route("/v3/", self._script),
                Route("/bank/{secret}", self._bank, methods=["GET", "POST"]),
            ]
        )

    def by_key(self, key: str) -> list[dict[str, Any]]:
        return [intent for intent in self.intents.values() if intent["metadata"].get("holdfast_key") == key]

    def index(self) -> None:
        self.indexed = set(self.intents)

    def answer_bank(self, key: str, *, approved: bool) -> None:
        """As the buyer does, on the bank's page."""
        [intent] = self.by_key(key)
        self._answer(intent, approved=approved)

    def _answer(self, intent: dict[str, Any], *, approved: bool) -> None:
        assert intent["status"] == "requires_action"
        error = None if approved else {"code": "payment_intent_authentication_failure"}
        intent |= {
            "status": "requires_capture" if approved else "requires_payment_method",
            "last_payment_error": error,
        }

    async def _script(self, _request: Request) -> Response:
        return Response(SCRIPT.read_bytes(), media_type="text/javascript")

    async def _make_token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        assert form["key"] == PUBLISHABLE_KEY
        self._tokens += 1
        body = {"id": f"ctoken_{CARDS[form['number'].replace(' ', '')]}_{self._tokens}"}
        return JSONResponse(body, headers={"access-control-allow-origin": "*"})

    async def _bank(self, request: Request) -> Response:
        secret = request.path_params["secret"]
        [intent] = [intent for intent in self.intents.values() if intent["client_secret"] == secret]
        if request.method == "GET":
            return HTMLResponse(BANK_PAGE)
        form = dict(parse_qsl((await request.body()).decode()))
        self._answer(intent, approved=form["answer"] == "approve")
        if self.webhook_url and self.posts_webhooks:
            await self._post_webhook(intent)
        return HTMLResponse(ANSWERED_PAGE)

    async def _post_webhook(self, intent: dict[str, Any]) -> None:
        kind = "amount_capturable_updated" if intent["status"] == "requires_capture" else "payment_failed"
        body, signature = signed_webhook(intent["metadata"]["holdfast_key"], f"payment_intent.{kind}")
        async with httpx.AsyncClient(trust_env=False) as client:
            for _ in range(self.webhook_times):
                await client.post(self.webhook_url, content=body, headers={"stripe-signature": signature})

    def forget_idempotency_keys(self) -> None:
        """As Stripe may after a day."""
        self._answers.clear()

    def _get(self, work: Any) -> Any:
        async def handle(request: Request) -> Response:
            self.requests[request.url.path] += 1
            try:
                _check_key(request)
                return JSONResponse(work(request))
            except StripeError as exc:
                return JSONResponse(exc.body, exc.status)

        return handle

    def _post(self, work: Any) -> Any:
        async def handle(request: Request) -> Response:
            self.requests[request.url.path] += 1
            form = parse_qsl((await request.body()).decode(), keep_blank_values=True)
            try:
                _check_key(request)
                return await self._once(request, form, work)
            except StripeError as exc:
                return JSONResponse(exc.body, exc.status)

        return handle

    async def _once(self, request: Request, form: list[tuple[str, str]], work: Any) -> Response:
        key = request.headers["idempotency-key"]
        if key in self._running:
            raise StripeError(409, "idempotency_error", "idempotency_key_in_use")
        if key in self._answers:
            first, status, body = self._answers[key]
            if first != form:
                raise StripeError(400, "idempotency_error", "idempotency_key_reused")
            answer = JSONResponse(body, status)
            # Capitalised on the wire, as Stripe does; given to Starlette as a header, it would be in lower case.
            answer.raw_headers.append((b"Idempotent-Replayed", b"true"))
            return answer
        self._running.add(key)
        try:
            status, body = await self._execute(request, dict(form), work)
        finally:
            self._running.discard(key)
        self._answers[key] = (form, status, body)
        verb = request.url.path.rpartition("/")[2]
        is_lost = form_method(form) == "pm_lost_reply" or verb in self.lose_next
        self.lose_next.discard(verb)
        return CutOff() if is_lost else JSONResponse(body, status)

    async def _execute(self, request: Request, form: dict[str, str], work: Any) -> tuple[int, dict[str, Any]]:
        if form.get("payment_method") == "pm_slow":
            await asyncio.sleep(SLOW_S)
        try:
            return 200, dict(work(request, form))
        except StripeError as exc:
            return exc.status, exc.body

    def _create(self, _request: Request, form: dict[str, str]) -> dict[str, Any]:
        method = form.get("payment_method") or form.get("confirmation_token")
        if method == "pm_error":
            raise StripeError(500, "api_error", "internal")
        _require(form, capture_method="manual", confirm="true")
        is_present = "confirmation_token" in form
        assert ("off_session" in form) != is_present, form
        assert ("use_stripe_sdk" in form) == is_present, form
        if not method or not method.startswith("ctoken_" if is_present else "pm_"):
            raise StripeError(400, "invalid_request_error", "resource_missing", param="payment_method")
        if is_present:
            # A token is used once. Those that a browser made end in a number.
            if any(intent.get("confirmation_token") == method for intent in self.intents.values()):
                raise StripeError(400, "invalid_request_error", "confirmation_token_already_used")
            method = "_".join(method.split("_")[:2])
        if int(form["amount"]) < 50:
            raise StripeError(400, "invalid_request_error", "amount_too_small", param="amount")
        intent = {
            "id": f"pi_{len(self.intents) + 1}",
            "object": "payment_intent",
            "amount": int(form["amount"]),
            "currency": form["currency"],
            "metadata": {name[9:-1]: value for name, value in form.items() if name.startswith("metadata[")},
            "status": STATUS.get(method, "requires_capture"),
            "client_secret": f"pi_{len(self.intents) + 1}_secret_{secrets.token_hex(8)}",
            "confirmation_token": form.get("confirmation_token"),
            "customer": form.get("customer"),
            "latest_charge": {"object": "charge", "amount_refunded": 0},
            "last_payment_error": None,
            "cancellation_reason": None,
            "created": int(time.time()),
        }
        self.intents[str(intent["id"])] = intent
        if method in DECLINES:
            error = {"code": "card_declined", "decline_code": DECLINES[method]}
            intent |= {"status": "requires_payment_method", "last_payment_error": error}
            raise StripeError(402, "card_error", "card_declined", decline_code=DECLINES[method], payment_intent=intent)
        return intent

    def _found(self, request: Request) -> dict[str, Any]:
        try:
            return self.intents[request.path_params["id"]]
        except KeyError:
            raise StripeError(404, "invalid_request_error", "resource_missing") from None

    def _retrieve(self, request: Request) -> dict[str, Any]:
        return self._found(request)

    def _capture(self, request: Request, _form: dict[str, str]) -> dict[str, Any]:
        intent = self._found(request)
        if intent["status"] != "requires_capture":
            raise StripeError(400, "invalid_request_error", "payment_intent_unexpected_state", payment_intent=intent)
        self.captures[intent["id"]] += 1
        intent["status"] = "succeeded"
        return intent

    def _cancel(self, request: Request, form: dict[str, str]) -> dict[str, Any]:
        intent = self._found(request)
        if intent["status"] in ("succeeded", "canceled", "processing"):
            raise StripeError(400, "invalid_request_error", "payment_intent_unexpected_state", payment_intent=intent)
        intent |= {"status": "canceled", "cancellation_reason": form.get("cancellation_reason")}
        # As Stripe does: an authorisation that was let go of counts as refunded.
        intent["latest_charge"]["amount_refunded"] = intent["amount"]
        return intent

    def _list(self, request: Request) -> dict[str, Any]:
        """The newest first."""
        asked = request.query_params
        names = [name for name, intent in self.intents.items() if intent["created"] >= int(asked["created[gte]"])][::-1]
        after, limit = asked.get("starting_after"), int(asked["limit"])
        left = names if after is None else names[names.index(after) + 1 :]
        return {"object": "list", "data": [self.intents[name] for name in left[:limit]], "has_more": len(left) > limit}

    def _search(self, request: Request) -> dict[str, Any]:
        match = re.fullmatch(r"metadata\['holdfast_key'\]:'(.*)'", request.query_params["query"])
        if match is None:
            raise StripeError(400, "invalid_request_error", "parameter_invalid")
        key = re.sub(r"\\(.)", r"\1", match[1])
        return {"object": "search_result", "data": [i for i in self.by_key(key) if i["id"] in self.indexed]}

    def _refund(self, _request: Request, form: dict[str, str]) -> dict[str, Any]:
        intent, amount = self.intents[form["payment_intent"]], int(form["amount"])
        charge = intent["latest_charge"]
        if intent["status"] != "succeeded" or charge["amount_refunded"] + amount > intent["amount"]:
            raise StripeError(400, "invalid_request_error", "charge_already_refunded")
        charge["amount_refunded"] += amount
        metadata = {"holdfast_key": form["metadata[holdfast_key]"]}
        refund = {"id": f"re_{len(self.refunds) + 1}", "object": "refund", "amount": amount, "status": "succeeded"}
        self.refunds.append(refund | {"payment_intent": intent["id"], "metadata": metadata})
        return self.refunds[-1]

    def _list_refunds(self, request: Request) -> dict[str, Any]:
        intent_id = request.query_params["payment_intent"]
        return {"object": "list", "data": [r for r in self.refunds if r["payment_intent"] == intent_id]}


def form_method(form: list[tuple[str, str]]) -> str | None:
    return dict(form).get("payment_method")


def _check_key(request: Request) -> None:
    if request.headers.get("authorization") != f"Bearer {API_KEY}":
        raise StripeError(401, "invalid_request_error", "api_key_invalid")


def _require(form: dict[str, str], **expected: str) -> None:
    for name, value in expected.items():
        assert form.get(name) == value, f"{name} should be {value}: {form}"


def signed_webhook(key: str, kind: str, at: int | None = None) -> tuple[bytes, str]:
    """Body and header, as Stripe signs and sends them."""
    event: dict[str, Any] = {"id": "evt_1", "type": kind, "data": {"object": {"metadata": {"holdfast_key": key}}}}
    body, now = json.dumps(event), int(time.time()) if at is None else at
    signature = WebhookSignature._compute_signature(f"{now}.{body}", WEBHOOK_SECRET)
    return body.encode(), f"t={now},v1={signature}"


@contextmanager
def stripe_in_a_thread() -> Iterator[StripeServer]:
    """For tests that are not asynchronous."""
    started, stop = threading.Event(), threading.Event()
    found: list[StripeServer] = []

    async def run() -> None:
        async with running_stripe() as stripe:
            found.append(stripe)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    started.wait()
    try:
        yield found[0]
    finally:
        stop.set()
        thread.join()


@asynccontextmanager
async def running_stripe() -> AsyncIterator[StripeServer]:
    stripe = StripeServer()
    listener = socket.create_server(("127.0.0.1", 0))
    stripe.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(stripe.app, http="h11", log_level="critical", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield stripe
    finally:
        server.should_exit = True
        await serving
