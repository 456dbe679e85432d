"""The program that `forking` starts: it imports Holdfast once, then runs each command in a fork of itself."""

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
from typing import Any

_STARTED = struct.Struct("i")
_ENDED = struct.Struct("id")
# Whatever these import is there, too. None of them starts a thread.
MODULES = ("holdfast.cli", "holdfast.http.asgi", "granian", "uvloop")


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    del sys.path[0]
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    order = _next_order(orders)
    if order is not None:
        _become(order)


def _next_order(orders: socket.socket) -> dict[str, Any] | None:
    """In each fork, what it has to do. In the helper, None at the end."""
    woken = _wakeup()
    running: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
            _report_ended(running)
            if orders not in ready:
                continue
            received = _receive(orders)
            if received is None:
                break
            order, (stdout, stderr, status) = received
            pid = os.fork()
            if pid == 0:
                break
            running[pid] = status
            os.close(stdout)
            os.close(stderr)
            os.write(status, _STARTED.pack(pid))
    if received is None:
        for left in running:
            os.kill(left, signal.SIGTERM)
        return None
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    orders.close()
    woken.close()
    for other in (status, *running.values()):
        os.close(other)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    return order


def _wakeup() -> socket.socket:
    """Readable after a child has ended."""
    woken, waker = socket.socketpair()
    woken.setblocking(False)
    waker.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.detach())
    return woken


def _report_ended(running: dict[int, int]) -> None:
    while running:
        pid, code, used = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        status = running.pop(pid)
        os.write(status, _ENDED.pack(os.waitstatus_to_exitcode(code), used.ru_utime + used.ru_stime))
        os.close(status)


def _receive(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    size, files, _, _ = socket.recv_fds(orders, 4, 3)
    if not size:
        return None
    message = b""
    while len(message) < (wanted := struct.unpack("I", size)[0]):
        message += orders.recv(wanted - len(message))
    return json.loads(message), files


def _become(order: dict[str, Any]) -> None:
    """`python -m holdfast …`"""
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["holdfast", *order["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runpy.run_module("holdfast", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
