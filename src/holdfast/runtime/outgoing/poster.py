"""Posts to an address that a user chose, with limits on the host, the time, and the size of the response."""

import asyncio
from collections.abc import Mapping
from time import monotonic

import httpcore
from msgspec import Struct

from holdfast.runtime.outgoing.address import AddressRefused, GuardedBackend

CONNECT_TIMEOUT_S = 3.0
# The response is not needed. A short one is read so that the connection can be reused.
ANSWER_MAX_BYTES = 4_096


class Posted(Struct, frozen=True):
    """`error`: timeout, address_refused, unreachable or protocol_error, if there is no status."""

    status: int | None
    error: str | None
    retry_after_s: float | None
    took_ms: int
    # False if nothing was sent for certain.
    may_have_arrived: bool = True


class Poster:
    def __init__(self, *, private: bool, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # The caller limits the number of connections.
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None, keepalive_expiry=5.0, network_backend=GuardedBackend(private=private)
        )

    async def close(self) -> None:
        await self._pool.aclose()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Posted:
        """Returns the result, which may be a failure."""
        started, may_have_arrived = monotonic(), True
        status, error, retry_after = None, None, None
        try:
            async with asyncio.timeout(self._timeout_s):
                status, retry_after = await self._post(url, headers, body)
        except (TimeoutError, httpcore.TimeoutException) as exc:
            error, may_have_arrived = "timeout", not isinstance(exc, httpcore.ConnectTimeout)
        except AddressRefused:
            error, may_have_arrived = "address_refused", False
        except (httpcore.NetworkError, OSError) as exc:
            error, may_have_arrived = "unreachable", not isinstance(exc, httpcore.ConnectError)
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError):
            error = "protocol_error"
        return Posted(status, error, retry_after, round((monotonic() - started) * 1000), may_have_arrived)

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, float | None]:
        timeouts = {"connect": CONNECT_TIMEOUT_S, "read": self._timeout_s, "write": self._timeout_s}
        async with self._pool.stream(
            "POST", url, headers=list(headers.items()), content=body, extensions={"timeout": timeouts}
        ) as response:
            read = 0
            async for chunk in response.aiter_stream():
                read += len(chunk)
                if read > ANSWER_MAX_BYTES:
                    break
            return response.status, _retry_after(dict(response.headers))


def _retry_after(headers: dict[bytes, bytes]) -> float | None:
    """In seconds. The date form is rare and depends on a foreign clock, so it is ignored."""
    given = {name.lower(): value for name, value in headers.items()}.get(b"retry-after", b"")
    return float(given) if given.isdigit() and len(given) < 10 else None
