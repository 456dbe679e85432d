"""Connections to one Redis server, and what their failures mean.

A failure before the first byte of a command is sent is `Unavailable`: nothing was done. A failure after that, until the
whole reply has been read, is `OutcomeUnknown`. Nothing is ever sent twice. redis-py would retry on its own and use its
own timers, so only its connections are used, without their retries and timeouts.

A connection returns to the pool only after every reply was read. Anything else that ends its use (an error, a timeout,
a cancelled caller) closes it, so no caller gets a reply meant for another.
"""

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import hiredis
from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import RedisError, ResponseError

from holdfast import __version__
from holdfast.errors import EngineError, OutcomeUnknown, SettingsError, Unavailable
from holdfast.gate.redis.link.port import Command, ErrorReply
from holdfast.gate.redis.link.redis_url import Address, Login

# The peer has closed. If a kernel cannot tell that from data, data counts too: an idle connection should have none.
_GONE = getattr(select, "POLLRDHUP", select.POLLIN) | select.POLLHUP | select.POLLERR


class RedisConnection(Connection):
    """A connection of redis-py with two more methods."""

    async def exchange(self, packed: bytes, replies: int) -> list[Any]:
        await self.send_packed_command(packed, check_health=False)
        return [await self._reply() for _ in range(replies)]

    async def _reply(self) -> Any:
        try:
            return await self.read_response(disconnect_on_error=False)
        except RedisError as exc:
            # redis-py makes some refusals (LOADING, NOAUTH) look like a lost connection; the code tells them apart.
            if exc.status_code is not None:
                return ErrorReply(exc.status_code, str(exc))
            if isinstance(exc, ResponseError):
                code, _, message = str(exc).partition(" ")
                return ErrorReply(code, message)
            raise

    async def is_fit(self) -> bool:
        """Open, with nothing left to read. Asks the kernel, because the event loop may not have polled since."""
        if self._writer is None or self._writer.is_closing() or await self.can_read():
            return False
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket").fileno(), _GONE)
        return not poll.poll(0)


class TlsConnection(RedisConnection, SSLConnection):
    pass


@dataclass(frozen=True)
class Dialer:
    """How to connect to servers with the same credentials."""

    login: Login
    database: int
    tls: ssl.SSLContext | None

    def wire(self, address: Address) -> RedisConnection:
        if self.tls is None:
            return RedisConnection(**self._arguments(address))
        wire = TlsConnection(**self._arguments(address))
        # redis-py would load all certificate authorities for each connection, which blocks the loop for 30 ms.
        wire.ssl_context.context = self.tls
        return wire

    def _arguments(self, address: Address) -> dict[str, Any]:
        return {
            "host": address[0],
            "port": address[1],
            "db": self.database,
            "username": self.login.username,
            "password": self.login.password,
            # Whole calls are timed, not single reads: see `failing_as`.
            "socket_timeout": None,
            "socket_connect_timeout": None,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": DriverInfo(name="holdfast", lib_version=__version__),
        }


def tls_context(files: dict[str, str]) -> ssl.SSLContext:
    """Trusts only the given authority, or else those of the system."""
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca_certs"))
        if "ssl_certfile" in files:
            context.load_cert_chain(files["ssl_certfile"], files.get("ssl_keyfile"))
    except (OSError, ValueError) as exc:
        raise SettingsError(f"HOLDFAST_REDIS_URL: its ssl_… files cannot be used: {exc}") from exc
    return context


@asynccontextmanager
async def failing_as(error: type[EngineError], what: str, until: float) -> AsyncIterator[None]:
    """Failures of the block, and running past `until` on the loop's clock, are raised as `error`."""
    try:
        async with asyncio.timeout_at(until):
            yield
    except TimeoutError as exc:
        raise error(f"{what}: no answer in time") from exc
    except (RedisError, OSError, RuntimeError) as exc:
        # uvloop raises RuntimeError for a write on a connection that it has closed meanwhile.
        raise error(f"{what}: {exc}") from exc


class Node:
    """One server, and a limited number of connections to it."""

    def __init__(self, address: Address, dial: Callable[[Address], RedisConnection], connections: int) -> None:
        self.address = address
        self._name = f"Redis at {address[0]}:{address[1]}"
        self._dial = dial
        self._turns = asyncio.Semaphore(connections)
        self._idle: list[RedisConnection] = []
        self._is_closed = False

    async def exchange(self, commands: Sequence[Command], until: float) -> list[Any]:
        """Send all in one write; returns a reply or an `ErrorReply` for each."""
        # redis-py packs in Python, which takes six times as long.
        packed = b"".join([hiredis.pack_command(tuple(command)) for command in commands])  # type: ignore[arg-type]
        doubt = failing_as(OutcomeUnknown, f"{self._name} may or may not have done it", until)
        async with self._turn(until), self._borrowed(until) as wire:
            # If no time is left to read the reply, nothing is sent.
            if asyncio.get_running_loop().time() >= until:
                raise Unavailable(f"{self._name} became free too late")
            async with doubt:
                return await wire.exchange(packed, len(commands))

    @asynccontextmanager
    async def _turn(self, until: float) -> AsyncIterator[None]:
        # A timer costs as much as sending the command, so there is none if nothing has to be waited for.
        if self._turns.locked():
            async with failing_as(Unavailable, f"every connection to {self._name} is in use", until):
                await self._turns.acquire()
        else:
            await self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()

    @asynccontextmanager
    async def _borrowed(self, until: float) -> AsyncIterator[RedisConnection]:
        wire = await self._fit_idle() or self._dial(self.address)
        try:
            if not wire.is_connected:
                async with failing_as(Unavailable, f"{self._name} cannot be reached", until):
                    await wire.connect()  # type: ignore[no-untyped-call]
            yield wire
        except BaseException:
            await wire.disconnect(nowait=True)
            raise
        await self._give_back(wire)

    async def _fit_idle(self) -> RedisConnection | None:
        while self._idle:
            wire = self._idle.pop()
            if await wire.is_fit():
                return wire
            await wire.disconnect(nowait=True)
        return None

    async def _give_back(self, wire: RedisConnection) -> None:
        if self._is_closed:
            await wire.disconnect(nowait=True)
        else:
            self._idle.append(wire)

    async def close(self) -> None:
        """Calls in flight finish normally; their connections are closed then."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)
