"""The client's address, behind the proxies that the settings trust.

A proxy appends its peer's address to `X-Forwarded-For`. Everything before that was written by others, perhaps by the
client itself. So the list is read from the right, for as long as the hop that wrote an entry is a trusted proxy; the
first address that is not one is the client's. Clients whose proxy sends no readable address are counted together.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol

Networks = tuple[IPv4Network | IPv6Network, ...]
# A home or a phone has a network of this size, with more addresses than could be counted one by one.
IPV6_PREFIX = 64
# Providers give a home or a company up to this many networks of that size: 256, and 65,536.
WIDER_PREFIXES = (48, 56)
UNKNOWN = "unknown"
# The peer of a connection through a local socket.
UNIX = "unix"
# An IPv6 address in brackets with its port has at most 53 characters. Longer text is not looked at, nor cached.
ENTRY_MAX = 64
# More proxies than anyone chains.
HOPS_MAX = 32


class Connection(Protocol):
    def header_lines(self, name: str, /) -> list[str]: ...

    def peer(self) -> str: ...


def parse_networks(text: str) -> Networks:
    """Networks as CIDRs, separated by commas. Raises ValueError."""
    return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


class ClientAddresses:
    def __init__(self, trusted: Networks, *, limit_loopback: bool, shared: Networks = ()) -> None:
        self._trusted = trusted
        self._shared = shared
        self._limit_loopback = limit_loopback

    def limited(self, connection: Connection) -> str | None:
        """The key under which limits count this client; None if it is exempt: on loopback, without a proxy."""
        host, is_forwarded = self.client_of(connection)
        return _counted(host) if self._limit_loopback or is_forwarded else _counted_unless_loopback(host)

    def limited_in_units(self, connection: Connection) -> str | None:
        """As `limited`; None also for addresses that many people are known to share."""
        counted = self.limited(connection)
        address = None if counted is None else _parsed(counted)
        return None if address is not None and any(address in network for network in self._shared) else counted

    def client_of(self, connection: Connection) -> tuple[str, bool]:
        """The host, and whether a proxy reported it."""
        peer = _host(connection.peer())
        if not self._trusted or not self._trusts(peer):
            return peer, False
        lines = connection.header_lines("x-forwarded-for")
        if not lines:
            return peer, False
        host = UNKNOWN
        for entry in reversed(",".join(lines).rsplit(",", HOPS_MAX)):
            host = _readable(entry)
            if not self._trusts(host):
                break
        return host, True

    def is_from_proxy(self, connection: Connection) -> bool:
        """Whether a proxy that the settings trust sent it, and so answers for its headers."""
        return bool(self._trusted) and self._trusts(_host(connection.peer()))

    def _trusts(self, host: str) -> bool:
        address = _parsed(host)
        return address is not None and any(address in network for network in self._trusted)


def wider_networks(counted: str) -> tuple[str, ...]:
    """The larger networks of an IPv6 client, widest first. An IPv4 address has none."""
    return _wider_networks(counted) if ":" in counted else ()


@lru_cache(maxsize=10_000)
def _wider_networks(counted: str) -> tuple[str, ...]:
    return tuple(str(ip_network((counted, prefix), strict=False)) for prefix in WIDER_PREFIXES)


def _readable(entry: str) -> str:
    """The address in an entry of `X-Forwarded-For`."""
    entry = entry.strip()
    if len(entry) > ENTRY_MAX:
        return UNKNOWN
    host = _host(entry)
    return host if _parsed(host) is not None else UNKNOWN


@lru_cache(maxsize=10_000)
def _host(peer: str) -> str:
    """Without the port, which some proxies write too."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    return peer.partition(":")[0] if peer.count(":") == 1 else peer


@lru_cache(maxsize=10_000)
def _parsed(host: str) -> IPv4Address | IPv6Address | None:
    if "%" in host:  # A zone means something on the machine that wrote it, and nowhere else.
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=10_000)
def _counted_unless_loopback(host: str) -> str | None:
    address = _parsed(host)
    return None if address is not None and address.is_loopback else _counted(host)


@lru_cache(maxsize=10_000)
def _counted(host: str) -> str:
    address = _parsed(host)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, IPV6_PREFIX), strict=False).network_address)
    if address is not None:
        return str(address)
    return host if host == UNIX or _is_zoned(host) else UNKNOWN


def _is_zoned(host: str) -> bool:
    """An address of this machine's own network, as the peer of a connection."""
    address, zone, _ = host.partition("%")
    return bool(zone) and len(host) <= ENTRY_MAX and _parsed(address) is not None and ":" in address
