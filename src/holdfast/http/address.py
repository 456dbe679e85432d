"""Where a server listens: names become addresses once, at the start."""

import socket

from holdfast.errors import SettingsError

CONNECTIONS_MAX = 16_384


def resolve(host: str, port: int) -> str:
    """The address of a host. Where a name has several, as `localhost` does, the IPv4 one: everyone can reach it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not a host name"
        raise SettingsError(f"cannot listen on {host}:{port} ({reason}); choose another with --host, --port") from exc
    found.sort(key=lambda info: info[0] != socket.AF_INET)
    return str(found[0][4][0])


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
