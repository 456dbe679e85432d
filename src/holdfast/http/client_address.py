"""Whose request it is, by address: the client's, and not that of the proxies it came through.

A proxy adds the address it heard from to the end of `X-Forwarded-For`. Everything before that was written by somebody
else, perhaps by the client itself. So the list is read from the right, for as long as the hop that wrote an entry is a
proxy that the settings trust; the first address that is not one is the client.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from holdfast.http.requests import Request

Networks = tuple[IPv4Network | IPv6Network, ...]
# A home or a phone has a network of this size to itself, with more addresses than anyone could count.
IPV6_PREFIX = 64


def parse_networks(text: str) -> Networks:
    """Networks as CIDRs, separated by commas. Raises ValueError."""
    return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


class ClientAddresses:
    def __init__(self, trusted: Networks, *, limit_loopback: bool) -> None:
        self._trusted = trusted
        self._limit_loopback = limit_loopback

    def limited(self, request: Request) -> str | None:
        """By what a limit counts this client; None for one that is exempt."""
        host = self.client_of(request)
        if not self._limit_loopback and _is_loopback(host):
            return None
        return _counted(host)

    def client_of(self, request: Request) -> str:
        host = _host(request.wire.peer())
        if not self._trusted or not self._trusts(host):
            return host
        forwarded = [value for name, value in request.wire.headers() if name == "x-forwarded-for"]
        for entry in reversed(",".join(forwarded).split(",")):
            hop = _host(entry.strip())
            if _parsed(hop) is None:
                break
            host = hop
            if not self._trusts(hop):
                break
        return host

    def _trusts(self, host: str) -> bool:
        address = _parsed(host)
        return address is not None and any(address in network for network in self._trusted)


@lru_cache(maxsize=10_000)
def _host(peer: str) -> str:
    """Without the port, which some proxies write too."""
    if peer.startswith("["):
        return peer[1:].partition("]")[0]
    return peer.partition(":")[0] if peer.count(":") == 1 else peer


@lru_cache(maxsize=10_000)
def _parsed(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=10_000)
def _is_loopback(host: str) -> bool:
    address = _parsed(host)
    return address is not None and bool(address.is_loopback)


@lru_cache(maxsize=10_000)
def _counted(host: str) -> str:
    address = _parsed(host)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, IPV6_PREFIX), strict=False).network_address)
    return host if address is None else str(address)
