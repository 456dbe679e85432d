"""The HTTP interface of the simulation, independent of the server it runs on.

It starts processes, so it answers only requests to a loopback name, and accepts commands only from its own page:
another site cannot use a visitor's browser to send commands.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.http import web
from holdfast.lab.simulation.options import Fault, Options
from holdfast.lab.simulation.simulator import Simulator

PAGE, EVENTS, STATE = "/simulation", "/simulation/events", "/simulation/state"
_OWN = Path(__file__).parent / "static"
_SHARED = Path(web.__file__).parent / "static"
_FILES = {
    PAGE: _OWN / "index.html",
    **{f"/assets/simulation/{file.name}": file for file in _OWN.iterdir() if file.suffix in (".css", ".mjs")},
    **{
        f"/assets/{name}": _SHARED / name
        for name in (
            "theme.css", "holdfast.svg", "console/html.mjs", "vendor/preact.mjs", "vendor/htm.mjs", "vendor/hooks.mjs",
        )
    },
}  # fmt: skip
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE = [
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
]
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Reply(Struct):
    status: int
    body: bytes = b""
    media_type: str = "application/json"
    location: str = ""


class FaultRequest(Struct, forbid_unknown_fields=True):
    fault: Fault


class DuplicateRequest(Struct, forbid_unknown_fields=True):
    is_on: bool


class Service:
    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self._orders: dict[tuple[str, str], Callable[[bytes], Awaitable[None]]] = {
            ("POST", "/simulation/runs"): self._start,
            ("DELETE", "/simulation/runs"): self._stop,
            ("POST", "/simulation/faults"): self._cause,
            ("PUT", "/simulation/duplicates"): self._duplicate,
        }

    async def answer(self, method: str, path: str, headers: Mapping[str, str | None], body: bytes) -> Reply:
        if not is_local(headers.get("host")):
            return _refusal(403, "This page is for the machine it runs on.")
        if method in ("GET", "HEAD"):
            return self._read(path)
        order = self._orders.get((method, path))
        if order is None:
            return _refusal(404, "There is nothing at this address.")
        if headers.get("sec-fetch-site") not in (None, "same-origin"):
            return _refusal(403, "Only the simulation's own page may do this.")
        try:
            await order(body)
        except msgspec.DecodeError as exc:
            return _refusal(422, str(exc))
        except HoldfastError as exc:
            return _refusal(409, str(exc))
        return Reply(202, b"{}")

    def frame(self) -> bytes:
        return msgspec.json.encode(self.simulator.frame)

    def _read(self, path: str) -> Reply:
        if path == STATE:
            return Reply(200, self.frame())
        if path == "/":
            return Reply(303, location=PAGE)
        file = _FILES.get(path)
        if file is None:
            return _refusal(404, "There is nothing at this address.")
        return Reply(200, file.read_bytes(), _TYPES[file.suffix])

    async def _start(self, body: bytes) -> None:
        self.simulator.start(msgspec.json.decode(body, type=Options))

    async def _stop(self, _body: bytes) -> None:
        await self.simulator.stop()

    async def _cause(self, body: bytes) -> None:
        self.simulator.cause(msgspec.json.decode(body, type=FaultRequest).fault)

    async def _duplicate(self, body: bytes) -> None:
        self.simulator.duplicate_clicks(is_on=msgspec.json.decode(body, type=DuplicateRequest).is_on)


def is_local(host: str | None) -> bool:
    """Rejects other host names, even if they resolve to this machine."""
    return urlsplit(f"//{host or ''}").hostname in _LOOPBACK


def _refusal(status: int, detail: str) -> Reply:
    return Reply(status, msgspec.json.encode({"detail": detail}))
