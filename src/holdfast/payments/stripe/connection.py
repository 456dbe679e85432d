"""One call to Stripe: returns a typed response, or raises an error that says what is known.

The SDK signs, encodes and classifies. Its own retries are off, because settlement decides when to retry.
"""

import ssl
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
import stripe
from msgspec import Struct

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.payments.answer import limits, open_session, read_answer

T = TypeVar("T")

# The request never left, or Stripe rejected it before processing it.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_REJECTED = (stripe.RateLimitError, stripe.AuthenticationError, stripe.PermissionError)


class StripeRefusal(Exception):
    """Stripe refused. `body` is its error as JSON."""

    def __init__(self, code: str, message: str, body: dict[str, Any]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.body = body


class Received(Struct):
    """`is_replayed`: this is Stripe's first response to the same key, which may be out of date."""

    data: Any
    is_replayed: bool


class _Http(stripe.AIOHTTPClient):
    """Without redirects, because an unreachable target would look like a request that was never sent. Without a limit
    on connections, because waiting for one would look like a timeout of Stripe; the settler limits the number of
    calls."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(timeout=limits(timeout_s))
        self._timeout_s = timeout_s
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:  # It needs a running loop.
            trusted = ssl.create_default_context(cafile=stripe.ca_bundle_path)
            self._opened = open_session(self._timeout_s, aiohttp.TCPConnector(ssl=trusted, limit=0))
        return self._opened

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        args, kwargs = self._get_request_args_kwargs(method, url, headers, post_data)
        try:
            async with self._session.request(*args, **kwargs, allow_redirects=False) as answer:
                return await read_answer(answer), answer.status, answer.headers
        except Exception as exc:
            self._handle_request_error(exc)


class StripeConnection:
    def __init__(self, api_key: str, timeout_s: float, api_base: str = "") -> None:
        self._http = _Http(timeout_s)
        self._client = stripe.StripeClient(
            api_key,
            max_network_retries=0,
            http_client=self._http,
            base_addresses={"api": api_base} if api_base else None,
        )

    async def call(
        self, method: str, path: str, parameters: dict[str, Any], idempotency_key: str | None = None
    ) -> Received:
        given = parameters if idempotency_key is None else {**parameters, "idempotency_key": idempotency_key}
        try:
            answer = await self._client.raw_request_async(method, f"/v1/{path}", **given)
        except (stripe.CardError, stripe.InvalidRequestError) as exc:
            raise _refusal(exc) from exc
        except stripe.StripeError as exc:
            raise _failure(exc) from exc
        except UnicodeDecodeError as exc:  # The SDK decodes the body to log it.
            raise OutcomeUnknown(f"Stripe's answer cannot be read: {exc}") from exc
        return Received(answer.data, _is_replayed(answer.headers))

    async def demand(self, method: str, path: str, parameters: dict[str, Any]) -> Received:
        """For requests that Stripe has no reason to refuse: if it does, the outcome is unknown."""
        try:
            return await self.call(method, path, parameters)
        except StripeRefusal as exc:
            raise OutcomeUnknown(f"Stripe refused {method} {path}: {exc}") from exc

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call]


def _is_replayed(headers: Mapping[str, str]) -> bool:
    """Header names are case-insensitive."""
    return any(name.lower() == "idempotent-replayed" and value == "true" for name, value in headers.items())


def part(identifier: str) -> str:
    """Quoted as a path segment."""
    return quote(identifier, safe="")


def read(data: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as exc:
        raise OutcomeUnknown(f"Stripe's answer cannot be read: {exc}") from exc


def _refusal(exc: stripe.CardError | stripe.InvalidRequestError) -> StripeRefusal:
    body = exc.json_body if isinstance(exc.json_body, dict) else {}
    error = body.get("error")
    details = error if isinstance(error, dict) else {}
    code = details.get("decline_code") or details.get("code") or "invalid_request"
    return StripeRefusal(str(code), str(exc.user_message), details)


def _failure(exc: stripe.StripeError) -> Unavailable | OutcomeUnknown:
    if isinstance(exc, _REJECTED):
        return Unavailable(f"Stripe rejected the request: {exc}")
    if isinstance(exc.__cause__, _NOT_SENT):
        return Unavailable(f"Stripe cannot be reached: {exc.__cause__!r}")
    return OutcomeUnknown(f"Stripe's outcome is unknown: {exc.__cause__ or exc!r}")
