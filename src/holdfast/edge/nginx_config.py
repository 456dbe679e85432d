"""Generates the nginx configuration of `holdfast edge nginx`: a template, filled with addresses, keys and refusals.

The refusals are those of the problem catalogue, so a client cannot tell whether nginx or the server refused it.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.errors import SettingsError
from holdfast.http.contract import problems
from holdfast.http.contract.exposed import EXPOSED_HEADERS
from holdfast.http.contract.problem import RETRY_LATER, ProblemKind

TEMPLATES = Path(__file__).parent / "nginx"
SCRIPT = "edge.js"
# Of `holdfast edge nginx`, per client address. A household or a small office stays below it, a script does not.
RATE_PER_SECOND, BUYING_RATE_PER_SECOND = 100, 10
# The burst, in seconds' worth of requests: a page loads its files together, and its buyer clicks when it opens.
BURST_S, BUYING_BURST_S = 2, 3
LOOPBACK = ("127.0.0.0/8", "::1")

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_NETWORK = re.compile(r"[0-9A-Fa-f:.]+(/\d{1,3})?")
# The characters allowed in a path, which is not quoted in the configuration.
_PATH = re.compile(r"/[A-Za-z0-9._/-]*")
_INDENT = " " * 8

_SAFE_DETAIL = "The server cannot be reached for a moment. Your place and your reservations are safe; retry shortly."
_UNKNOWN_DETAIL = (
    "The server did not answer. Your place and your reservations are safe. It is not known whether this was carried "
    "out: retry with the same `Idempotency-Key`."
)
_REFUSALS = {
    "admission_required": problems.ADMISSION_REQUIRED,
    "sold_out": problems.SOLD_OUT,
    "sale_ended": problems.SALE_ENDED,
    "busy": problems.BUSY,
    "rate_limited": problems.RATE_LIMITED,
    "body_too_large": problems.BODY_TOO_LARGE,
}
# Through a URL, not a named location: nginx detects these errors before it knows the URL of the request.
_BY_ADDRESS = (problems.INVALID_HEADER, problems.PATH_TOO_LONG)
_FORWARDED = (
    'proxy_set_header Connection "";',
    "proxy_set_header Host $http_host;",
    "proxy_set_header X-Forwarded-For $remote_addr;",
    "proxy_set_header X-Forwarded-Proto $scheme;",
    'proxy_set_header X-Forwarded-Host "";',
    'proxy_set_header Forwarded "";',
    # A trusted proxy decides which requests are traced, so trace headers from other clients are dropped.
    'proxy_set_header traceparent "";',
)
_ADD_CORS = (
    "add_header Access-Control-Allow-Origin $edge_cors_origin always;",
    "add_header Access-Control-Expose-Headers $edge_cors_exposed always;",
)
_CORS = (
    "proxy_hide_header Access-Control-Allow-Origin;",
    "proxy_hide_header Access-Control-Expose-Headers;",
    *_ADD_CORS,
)
# Files that every request opens, or finds missing. Each worker checks them again after a second. That keeps no cached
# response longer, because nginx notices that a file was replaced. Each location has its own cache of open files, and a
# worker often has only 1,024 file descriptors for these and all clients.
_KEPT_OPEN = (
    "open_file_cache max=100 inactive=2s;",
    "open_file_cache_valid 1s;",
    "open_file_cache_errors on;",
)


class EdgeOptions(Struct, frozen=True, kw_only=True):
    listen: str
    upstreams: tuple[str, ...]
    # By the first part of each pass that the key has signed.
    keys: Mapping[str, str]
    # Where nginx stores its cache, its process ID and its log.
    state: Path
    # The directory of `edge.js`.
    script_directory: Path = TEMPLATES
    rate_per_second: int = RATE_PER_SECOND
    buying_rate_per_second: int = BUYING_RATE_PER_SECOND
    # Networks without limits.
    exempt: tuple[str, ...] = LOOPBACK
    # Networks whose requests are all refused.
    blocked: tuple[str, ...] = ()
    # Origins whose pages may read responses (CORS).
    origins: frozenset[str] = frozenset()


def nginx_config(options: EdgeOptions) -> str:
    _check(options)
    values = {
        "LISTEN": options.listen,
        "STATE": str(options.state),
        "SCRIPT_DIRECTORY": str(options.script_directory),
        "KEYS": " ".join(f"{head} {secret}" for head, secret in options.keys.items()),
        "UPSTREAMS": "\n".join(_upstream(each, len(options.upstreams)) for each in options.upstreams),
        "EXEMPT": "\n".join(f"{_INDENT}{network} 0;" for network in options.exempt),
        "BLOCKED": "\n".join(f"{_INDENT}{network} 1;" for network in options.blocked),
        "FORWARDED": _indented(_FORWARDED, 12),
        "CORS": _indented(_CORS, 12),
        "KEPT_OPEN": _indented(_KEPT_OPEN, 12),
        "ORIGINS": _indented([f'"{origin}" "{origin}";' for origin in sorted(options.origins)], 8),
        "EXPOSED": EXPOSED_HEADERS,
        "RATE": str(options.rate_per_second),
        "BURST": str(options.rate_per_second * BURST_S),
        "BUYING_RATE": str(options.buying_rate_per_second),
        "BUYING_BURST": str(options.buying_rate_per_second * BUYING_BURST_S),
        "BUSY": _quoted(_document(problems.BUSY, detail=_SAFE_DETAIL)),
        "OUTCOME_UNKNOWN": _quoted(_document(problems.OUTCOME_UNKNOWN, detail=_UNKNOWN_DETAIL)),
        "REFUSALS": "\n".join(_refusals()),
        **_busy_page(),
    }
    return _fill((TEMPLATES / "nginx.conf").read_text(), values)


def read_networks(file: Path) -> tuple[str, ...]:
    """One address or network per line. Comments begin with `#`."""
    lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    try:
        return tuple(dict.fromkeys(str(ip_network(line, strict=False)) for line in lines if line))
    except ValueError as exc:
        raise SettingsError(f"{file}: {exc}") from exc


def _check(options: EdgeOptions) -> None:
    for name, addresses in (("--listen", [options.listen]), ("--upstream", options.upstreams)):
        if not addresses or not all(map(_is_address, addresses)):
            raise SettingsError(f"{name} must be HOST:PORT, such as 127.0.0.1:8000 or [::1]:8000")
    for path in (options.state, options.script_directory):
        if _PATH.fullmatch(str(path)) is None:
            raise SettingsError(f"{path}: use a path of letters, digits, dots, hyphens and underscores")
    if not all(map(_NETWORK.fullmatch, options.exempt)):
        raise SettingsError("--exempt must be a network such as 10.0.0.0/8")


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[1]) < 65_536


def _upstream(address: str, count: int) -> str:
    """A server that failed is skipped for a second. A single one is always tried."""
    return f"{_INDENT}server {address}{' max_fails=2 fail_timeout=1s' if count > 1 else ' max_fails=0'};"


def _refusals() -> Iterator[str]:
    for name, kind in _REFUSALS.items():
        yield _location(f"@edge_{name}", kind.status, f"'{_quoted(_document(kind))}'")
    for kind in _BY_ADDRESS:
        yield _location(f"= /_edge/{kind.reason}", kind.status, f"'{_quoted(_document(kind))}'")
    yield _location("@edge_unreachable", 503, "$edge_unreachable")


def _location(name: str, status: int, body: str) -> str:
    lines = [
        "internal;",
        "default_type application/problem+json;",
        "add_header Cache-Control no-store always;",
        "add_header X-Content-Type-Options nosniff always;",
        "add_header X-Request-Id $request_id always;",
        "add_header Holdfast-Cache EDGE always;",
        *_ADD_CORS,
        *(["add_header Retry-After $edge_retry_after always;"] if status in RETRY_LATER else []),
        f"return {status} {body};",
    ]
    return f"{_INDENT}location {name} {{\n{_indented(lines, 12)}\n{_INDENT}}}"


def _indented(lines: Iterable[str], by: int) -> str:
    return "\n".join(" " * by + line for line in lines)


def _document(kind: ProblemKind, **more: str) -> str:
    return msgspec.json.encode(kind.document(**more)).decode()


def _busy_page() -> dict[str, str]:
    style = (TEMPLATES / "busy.css").read_text().replace("\n", "")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _fill((TEMPLATES / "busy.html").read_text(), {"STYLE": style})
    return {"BUSY_PAGE": _quoted(page), "POLICY": f"default-src 'none'; style-src 'sha256-{digest}'"}


def _quoted(text: str) -> str:
    """Escapes text for single quotes in nginx's syntax."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _fill(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z_]+)@", partial(_value, values), template)


def _value(values: Mapping[str, str], name: re.Match[str]) -> str:
    return values[name[1]]
