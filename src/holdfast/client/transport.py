"""Converts calls to httpx's requests, and httpx's responses and errors to ours."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import httpx

from holdfast.client import errors
from holdfast.client.call import Call
from holdfast.client.conversation import Reply, Send

# With these errors nothing has been sent.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.ProxyError)
# A stream sends a comment at least this often while there are no events.
_STREAM_SILENCE_S = 60.0


def base_url_of(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not the URL of a server; use one such as https://shop.example.com")
    return url


def headers_of(key: str | None) -> dict[str, str]:
    """A key that was read from a file ends with a newline. Errors never show the key."""
    try:
        name = f"holdfast-python/{version('holdfast')}"
    except PackageNotFoundError:
        name = "holdfast-python"
    headers = {"User-Agent": name, "Accept": "application/json, */*;q=0.5"}
    if key is None:
        return headers
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("the key has characters that no key has; pass a service key or a buyer's token")
    return headers | {"Authorization": f"Bearer {key}"}


def request_of(http: httpx.Client | httpx.AsyncClient, step: Send, *, is_stream: bool = False) -> httpx.Request:
    call, content = step.call, step.call.content()
    headers = call.given_headers() | ({} if content is None else {"Content-Type": "application/json"})
    read_s = _STREAM_SILENCE_S if is_stream else step.timeout_s + call.wait_s
    timeout = httpx.Timeout(step.timeout_s, read=read_s)
    return http.build_request(
        call.method, call.path, params=call.given_query() or None, headers=headers, content=content, timeout=timeout
    )


def reply_of(response: httpx.Response) -> Reply:
    return Reply(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content
    )


def failure_of(call: Call[Any], exc: httpx.TransportError) -> errors.Unreachable | errors.NoAnswer:
    said = str(exc) or type(exc).__name__
    if isinstance(exc, _NOT_SENT):
        return errors.Unreachable(f"No connection: {said}")
    return errors.NoAnswer(f"{call.method} {call.path} got no answer: {said}", call.idempotency_key)
