"""Which addresses deliveries may be sent to (SSRF protection).

A webhook makes this server call an address chosen by its creator, so it must not give access to the server's own
network. A host name is checked by the addresses it resolves to when connecting, and the connection goes to a checked
address. So a name that resolves differently the second time (DNS rebinding) gains nothing.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from holdfast.runtime.outgoing.threads import on_thread

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL = 2_000
# Metadata services of clouds, which hand out credentials. Link-local ones are refused anyway.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
_HOST = re.compile(rb"[A-Za-z0-9._:-]+")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# The only range that IPv6 has handed out, and what in it is not for the public. Every other range (IPv4-compatible,
# translated and site-local addresses, local NAT64) leads to where the network's operator decides.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_SPECIAL = [ipaddress.ip_network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
_UNIQUE_LOCAL = ipaddress.ip_network("fc00::/7")
# The anycast address of relays to IPv6, withdrawn since.
_RELAYS = ipaddress.ip_network("192.88.99.0/24")


class AddressRefused(httpcore.ConnectError):
    pass


def is_reachable(address: str, *, private: bool) -> bool:
    """`private`: loopback and private addresses are allowed too."""
    ip = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip in _METADATA or ip in _RELAYS:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        is_public = ip in _GLOBAL_UNICAST and ip.is_global and not any(ip in network for network in _SPECIAL)
        return is_public or (private and (ip.is_loopback or ip in _UNIQUE_LOCAL))
    return ip.is_global or (private and (ip.is_loopback or not ip.is_reserved))


def _unwrapped(ip: IpAddress) -> IpAddress:
    """The IPv4 address embedded in an IPv6 address, if any."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


def check_url(text: str, *, private: bool) -> str:
    """The normalised URL. Raises ValueError with the reason if it is not allowed."""
    url = _parsed(text)
    if url is None or url.scheme not in ("http", "https") or len(str(url)) > MAX_URL or not text.isprintable():
        raise ValueError("must be a URL such as https://shop.example/hooks")
    if url.userinfo:
        raise ValueError("must not contain a user name or password; verify the signature instead")
    try:
        allowed = is_reachable(url.host, private=private)
    except ValueError:
        allowed = True  # A host name, which is checked when connecting.
    if not allowed:
        if is_reachable(url.host, private=True):
            raise ValueError("is in a private network; set HOLDFAST_WEBHOOK_PRIVATE=1 to allow it")
        raise ValueError("is never allowed: a link-local, multicast, reserved or cloud metadata address")
    return str(url.copy_with(fragment=None))


def _parsed(text: str) -> httpx.URL | None:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError):
        return None
    return url if _HOST.fullmatch(url.raw_host) and (url.port or 80) < 65_536 else None


class GuardedBackend(httpcore.AnyIOBackend):
    """Opens connections to allowed addresses only."""

    def __init__(self, *, private: bool) -> None:
        super().__init__()
        self._private = private

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = AddressRefused(f"{host} is not an allowed address")
        for address in await self._allowed(host, port):
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
        raise failure

    async def _allowed(self, host: str, port: int) -> list[str]:
        try:
            # Not in the shared thread pool: the owner of the name may make resolving it slow.
            found = await on_thread(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            raise httpcore.ConnectError(f"{host} cannot be resolved") from exc
        addresses = dict.fromkeys(str(where[0]) for *_, where in found)
        return [address for address in addresses if is_reachable(address, private=self._private)]
