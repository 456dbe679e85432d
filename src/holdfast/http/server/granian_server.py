"""Granian, as this project runs it."""

import os
import socket
from typing import Any

from granian._granian import ListenerSpec
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from holdfast.http.contract.problems import MAX_HEADER_BYTES
from holdfast.http.server.address import CONNECTIONS_MAX

HEADER_TIMEOUT_MS = 10_000
# How long a client may read nothing of what was sent to it.
WRITE_TIMEOUT_MS = 10_000


class _Server(Server):
    """Granian has no deadline for writing. The system has one, which connections inherit from their listener."""

    _shd: Any

    def _init_shared_socket(self) -> None:
        self._shd = ListenerSpec(self.bind_addr, self.bind_port, self.backlog).build()
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux.
            with socket.socket(fileno=os.dup(self._shd.get_fd())) as listener:
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, WRITE_TIMEOUT_MS)


def build_server(target: Any, host: str, port: int, interface: Interfaces) -> Server:
    return _Server(
        target,
        address=host,
        port=port,
        interface=interface,
        http=HTTPModes.http1,
        websockets=False,
        backlog=4096,
        backpressure=CONNECTIONS_MAX,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_TIMEOUT_MS, max_buffer_size=MAX_HEADER_BYTES),
        log_enabled=False,
    )
