"""`HOLDFAST_SMTP_URL`: the mail server, how it is reached, and its credentials.

smtp://mail.example.com                          port 587; STARTTLS if the server offers it
smtp://user:password@mail.example.com:587        STARTTLS is required: credentials are never sent in the open
smtps://user:password@mail.example.com           TLS from the start, port 465
smtp://127.0.0.1:25?starttls=never               a relay on this host; `required`, `auto` and `never`
"""

import ipaddress
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from holdfast.errors import SettingsError

_PORTS = {"smtp": 587, "smtps": 465}
_STARTTLS = ("auto", "required", "never")
_USE = "HOLDFAST_SMTP_URL: use smtp://user:password@host:587 or smtps://user:password@host"


class SmtpUrl(Struct, frozen=True):
    host: str
    port: int
    is_tls: bool = False
    starttls: str = "auto"
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        """Without the password, so that no log contains it."""
        return f"SmtpUrl({self.host}:{self.port})"


def parse_smtp_url(url: str) -> SmtpUrl:
    # The URL may contain a password, so it is not repeated in messages.
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise SettingsError(f"{_USE}; the port is a number") from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise SettingsError(_USE)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    starttls = options.pop("starttls", "auto")
    if options or starttls not in _STARTTLS:
        raise SettingsError(f"HOLDFAST_SMTP_URL: the only option is starttls, one of {', '.join(_STARTTLS)}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if user and starttls == "auto" and not _is_loopback(parts.hostname):
        starttls = "required"
    is_tls = parts.scheme == "smtps"
    return SmtpUrl(parts.hostname, port or _PORTS[parts.scheme], is_tls, starttls, user, password)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
