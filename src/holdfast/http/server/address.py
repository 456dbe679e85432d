"""Where a server listens: names are resolved once, at the start."""

import socket

from holdfast.errors import SettingsError

CONNECTIONS_MAX = 16_384


def resolve(host: str, port: int) -> str:
    """The address of a host. Of a name that has several, as `localhost` has, the IPv4 one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not a host name"
        raise SettingsError(f"cannot listen on {host}:{port} ({reason}); choose another with --host, --port") from exc
    found.sort(key=lambda info: info[0] != socket.AF_INET)
    return str(found[0][4][0])


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def check_port(host: str, port: int) -> None:
    """Workers share their port, so the system would not complain that another program uses it. We do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            raise SettingsError(
                f"cannot listen on {host}:{port} ({exc.strerror}); choose another with --host, --port"
            ) from exc
