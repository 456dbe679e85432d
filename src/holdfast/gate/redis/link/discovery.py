"""Finds the primary by asking all sentinels, or all servers of a cluster, concurrently.

The first response wins, so a server that is down or frozen costs no time. An outdated response leads to a failure, and
that to a new search.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from holdfast.errors import EngineError, Unavailable
from holdfast.gate.redis.link.connection import Node, RedisConnection
from holdfast.gate.redis.link.port import Command, ErrorReply
from holdfast.gate.redis.link.redis_url import Address
from holdfast.gate.redis.link.slots import SLOTS

T = TypeVar("T")
Dial = Callable[[Address], RedisConnection]


class Sentinels:
    def __init__(self, addresses: Iterable[Address], service: str, dial: Dial) -> None:
        self._addresses = tuple(addresses)
        self._service = service
        self._dial = dial

    async def primary(self, until: float) -> Address:
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        return await _first_answer([self._ask(address, command, until) for address in self._addresses])

    async def _ask(self, address: Address, command: Command, until: float) -> Address:
        reply = await _ask_once(address, self._dial, command, until)
        if reply is None:
            raise Unavailable(f"the sentinels do not know a service named {self._service}")
        return reply[0].decode(), int(reply[1])


class Cluster:
    def __init__(self, seeds: Iterable[Address], dial: Dial) -> None:
        self._seeds = frozenset(seeds)
        self._dial = dial

    async def owners(self, known: Iterable[Address], until: float) -> list[Address | None]:
        """The primary of every slot."""
        return await _first_answer([self._ask(address, until) for address in self._seeds.union(known)])

    async def _ask(self, address: Address, until: float) -> list[Address | None]:
        owners: list[Address | None] = [None] * SLOTS
        for first, last, (host, port, *_), *_replicas in await _ask_once(
            address, self._dial, ("CLUSTER", "SLOTS"), until
        ):
            # No host means the server that was asked; "?" means that it does not know its own name.
            name = address[0] if host in (None, b"", b"?") else host.decode()
            owners[first : last + 1] = [(name, port)] * (last + 1 - first)
        return owners


async def _ask_once(address: Address, dial: Dial, command: Command, until: float) -> Any:
    """On its own connection: the others may all be waiting for a server that is down."""
    node = Node(address, dial, 1)
    try:
        (reply,) = await node.exchange([command], until)
    finally:
        await node.close()
    if isinstance(reply, ErrorReply):
        raise Unavailable(f"Redis at {address[0]}:{address[1]} answered: {reply.code} {reply.message}")
    return reply


async def _first_answer(questions: Iterable[Coroutine[Any, Any, T]]) -> T:
    tasks = [asyncio.ensure_future(question) for question in questions]
    failure: EngineError | None = None
    try:
        for answer in asyncio.as_completed(tasks):
            try:
                return await answer
            except EngineError as exc:
                failure = exc
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # The caller's command was not sent, however the search failed.
    raise Unavailable(f"the primary was not found: {failure}") from failure
