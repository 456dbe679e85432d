"""One call to Stripe: the answer read into a type, or an error that says what is known.

The SDK signs, encodes and classifies. Its own retries are off, because settlement decides when to ask again.
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

T = TypeVar("T")

# The request never left, or Stripe turned it away before it began.
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_TURNED_AWAY = (stripe.RateLimitError, stripe.AuthenticationError, stripe.PermissionError)


class StripeRefusal(Exception):
    """Stripe will not do it. `body` is its error as JSON."""

    def __init__(self, code: str, message: str, body: dict[str, Any]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.body = body


class Received(Struct):
    """`is_replayed` says that this is what Stripe answered the first time, which may be out of date."""

    data: Any
    is_replayed: bool


class _Http(stripe.AIOHTTPClient):
    """Follows nobody elsewhere: what cannot be reached there would be taken for never sent. And lets nobody wait for a
    connection, which would be taken for Stripe not answering: how many are under way is for the settler to say."""

    @property
    def _session(self) -> Any:
        if self._cached_session is None:  # Not before, because it needs the loop that runs.
            trusted = ssl.create_default_context(cafile=stripe.ca_bundle_path)
            self._user_connector = aiohttp.TCPConnector(ssl=trusted, limit=0)
        return super()._session

    def _get_request_args_kwargs(self, *request: Any, **more: Any) -> tuple[Any, dict[str, Any]]:
        args, kwargs = super()._get_request_args_kwargs(*request, **more)
        return args, {**kwargs, "allow_redirects": False}


class StripeConnection:
    def __init__(self, api_key: str, timeout_s: float, api_base: str = "") -> None:
        timeout = aiohttp.ClientTimeout(total=None, connect=timeout_s, sock_read=timeout_s)
        self._http = _Http(timeout=timeout)
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
        except (aiohttp.ClientError, TimeoutError) as exc:  # What happens while the answer is read, it lets through.
            raise OutcomeUnknown(f"Stripe's answer broke off: {exc!r}") from exc
        except UnicodeDecodeError as exc:  # The library logs what came, before it looks whether that is text.
            raise OutcomeUnknown(f"Stripe's answer cannot be read: {exc}") from exc
        return Received(answer.data, _is_replayed(answer.headers))

    async def demand(self, method: str, path: str, parameters: dict[str, Any]) -> Received:
        """For what Stripe has no reason to refuse: if it does, we know less than we thought."""
        try:
            return await self.call(method, path, parameters)
        except StripeRefusal as exc:
            raise OutcomeUnknown(f"Stripe refused {method} {path}: {exc}") from exc

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call]


def _is_replayed(headers: Mapping[str, str]) -> bool:
    """Names of headers come as Stripe writes them, and their case means nothing."""
    return any(name.lower() == "idempotent-replayed" and value == "true" for name, value in headers.items())


def part(identifier: str) -> str:
    """Something to stand between slashes."""
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
    if isinstance(exc, _TURNED_AWAY):
        return Unavailable(f"Stripe turned the request away: {exc}")
    if isinstance(exc.__cause__, _NOT_SENT):
        return Unavailable(f"Stripe cannot be reached: {exc.__cause__!r}")
    return OutcomeUnknown(f"Stripe did not say what happened: {exc!r}")
