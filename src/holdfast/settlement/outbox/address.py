"""Where deliveries may go.

Whoever may add a webhook makes this server call an address of their choice, so it must not become a way into the
network it stands in. Names are judged by what they resolve to, at the moment of connecting, and that very address is
then connected to: a name that resolves to something else the second time gains nothing.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL = 2_000
# Where clouds tell machines their secrets; link-local ones are refused as such.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
_HOST = re.compile(rb"[A-Za-z0-9._:-]+")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(httpcore.ConnectError):
    pass


def is_reachable(address: str, *, private: bool) -> bool:
    """`private`: addresses of this machine and of networks like this one may be called too."""
    ip = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip in _METADATA:
        return False
    return ip.is_global or (private and (ip.is_loopback or not ip.is_reserved))


def _unwrapped(ip: IpAddress) -> IpAddress:
    """An IPv4 address in the clothes of IPv6 leads to the same place."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


def check_url(text: str, *, private: bool) -> str:
    """The address as it will be called. ValueError says what is wrong with it."""
    url = _parsed(text)
    if url is None or url.scheme not in ("http", "https") or len(str(url)) > MAX_URL or not text.isprintable():
        raise ValueError("must be an address such as https://shop.example/hooks")
    if url.userinfo:
        raise ValueError("must not hold a user name or password; verify the signature instead")
    try:
        allowed = is_reachable(url.host, private=private)
    except ValueError:
        allowed = True  # A name, which is judged when it is called.
    if not allowed:
        if is_reachable(url.host, private=True):
            raise ValueError("leads into a private network, which only HOLDFAST_WEBHOOK_PRIVATE=1 allows")
        raise ValueError("leads where nothing is ever called: link-local, multicast, reserved, or a cloud's metadata")
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
        failure: Exception = AddressRefused(f"{host} is not an address that may be called")
        for address in await self._allowed(host, port):
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
        raise failure

    async def _allowed(self, host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            raise httpcore.ConnectError(f"{host} is not known") from exc
        addresses = dict.fromkeys(str(where[0]) for *_, where in found)
        return [address for address in addresses if is_reachable(address, private=self._private)]
