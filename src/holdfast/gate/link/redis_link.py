"""The way to Redis: one server, a service that sentinels watch over, or a cluster.

A call goes to one server in one write, and is never repeated once it may have been executed. What its failure means is
said by its class: `Unavailable`, nothing was executed; `OutcomeUnknown`, it may have been, wholly or in part. Where the
primary moved, the next call finds it: sentinels, or the map of the cluster, are asked anew after every failure that a
move could explain. Only MOVED and ASK are followed within a call, because a server that says so has executed nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.errors import EngineError, Unavailable
from holdfast.gate.link.discovery import Cluster, Sentinels
from holdfast.gate.link.port import Command, RedisLink
from holdfast.gate.link.redis_url import Address, Topology, parse_redis_url
from holdfast.gate.link.replies import RedisRefused, executed, executed_everywhere, redirect
from holdfast.gate.link.slots import key_slot
from holdfast.gate.link.wire import Dialer, Node, failing_as, tls_context

# A slot on its way from one server to the next takes two; more than this is a cluster that does not agree with itself.
_REDIRECTS_MAX = 4


def open_link(url: str, *, timeout_s: float = 2.0, connections: int = 8) -> RedisLink:
    """Connects when it is first used. `connections` counts for each server."""
    where = parse_redis_url(url)
    tls = None if where.tls_files is None else tls_context(where.tls_files)
    dial = Dialer(where.login, where.database, tls).wire

    def node(address: Address) -> Node:
        return Node(address, dial, connections)

    if where.topology is Topology.SENTINEL:
        dial_sentinel = Dialer(where.sentinel_login, 0, tls).wire
        return SentinelLink(Sentinels(where.addresses, where.service, dial_sentinel), node, timeout_s)
    if where.topology is Topology.CLUSTER:
        return ClusterLink(Cluster(where.addresses, dial), node, timeout_s)
    return SingleLink(node(where.addresses[0]), timeout_s)


class SingleLink:
    def __init__(self, node: Node, timeout_s: float) -> None:
        self._node = node
        self._timeout_s = timeout_s

    async def call(self, key: str, *commands: Command) -> list[Any]:
        return executed(commands, await self._node.exchange(commands, _until(self._timeout_s)))

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        return [await self.call("", *commands)]

    async def close(self) -> None:
        await self._node.close()


class SentinelLink:
    def __init__(self, sentinels: Sentinels, node: Callable[[Address], Node], timeout_s: float) -> None:
        self._sentinels = sentinels
        self._new_node = node
        self._timeout_s = timeout_s
        self._node: Node | None = None
        self._is_primary = False
        self._asking = asyncio.Lock()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        until = _until(self._timeout_s)
        node = await self._primary(until)
        try:
            return executed(commands, await node.exchange(commands, until))
        except RedisRefused:
            raise
        except EngineError:
            # Unless another call has found a newer primary meanwhile.
            self._is_primary = self._is_primary and self._node is not node
            raise

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        return [await self.call("", *commands)]

    async def _primary(self, until: float) -> Node:
        if self._node is not None and self._is_primary:
            return self._node
        async with _one_asks_for_all(self._asking, until):
            if self._node is None or not self._is_primary:
                self._node = await self._find_primary(self._node, until)
                self._is_primary = True
            return self._node

    async def _find_primary(self, known: Node | None, until: float) -> Node:
        address = await self._sentinels.primary(until)
        node = known if known is not None and known.address == address else self._new_node(address)
        try:
            await _check_role(node, until)
        except BaseException:
            if node is not known:
                await node.close()
            raise
        if known is not None and known is not node:
            await known.close()
        return node

    async def close(self) -> None:
        if self._node is not None:
            await self._node.close()


class ClusterLink:
    def __init__(self, cluster: Cluster, node: Callable[[Address], Node], timeout_s: float) -> None:
        self._cluster = cluster
        self._new_node = node
        self._timeout_s = timeout_s
        self._nodes: dict[Address, Node] = {}
        self._owners: list[Address | None] | None = None
        self._asking = asyncio.Lock()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        until = _until(self._timeout_s)
        owner = (await self._slots(until))[key_slot(key.encode())]
        if owner is None:
            self._owners = None
            raise Unavailable("no server of the cluster owns this key now")
        try:
            return await self._follow(owner, commands, until)
        except RedisRefused:
            raise
        except EngineError:
            self._owners = None
            raise

    async def _follow(self, address: Address, commands: Sequence[Command], until: float) -> list[Any]:
        replies = await self._node(address).exchange(commands, until)
        for _ in range(_REDIRECTS_MAX):
            moved = redirect(commands, replies, address)
            if moved is None:
                break
            code, address = moved
            if code == "MOVED":
                self._owners = None
                replies = await self._node(address).exchange(commands, until)
            else:
                replies = await self._exchange_asking(address, commands, until)
        return executed(commands, replies)

    async def _exchange_asking(self, address: Address, commands: Sequence[Command], until: float) -> list[Any]:
        """ASKING holds for the one command that follows it."""
        asking = [part for command in commands for part in (("ASKING",), command)]
        return (await self._node(address).exchange(asking, until))[1::2]

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        until = _until(self._timeout_s)
        self._owners = None
        primaries = sorted({owner for owner in await self._slots(until) if owner is not None})
        calls = [self._call_at(address, commands, until) for address in primaries]
        return executed_everywhere(await asyncio.gather(*calls, return_exceptions=True))

    async def _call_at(self, address: Address, commands: Sequence[Command], until: float) -> list[Any]:
        return executed(commands, await self._node(address).exchange(commands, until))

    async def _slots(self, until: float) -> list[Address | None]:
        owners = self._owners
        if owners is None:
            async with _one_asks_for_all(self._asking, until):
                owners = self._owners or await self._cluster.owners(self._nodes, until)
                self._owners = owners
                await self._close_strangers(owners)
        return owners

    async def _close_strangers(self, owners: list[Address | None]) -> None:
        for address in self._nodes.keys() - set(owners):
            await self._nodes.pop(address).close()

    def _node(self, address: Address) -> Node:
        if address not in self._nodes:
            self._nodes[address] = self._new_node(address)
        return self._nodes[address]

    async def close(self) -> None:
        await self._close_strangers([])


def _until(timeout_s: float) -> float:
    return asyncio.get_running_loop().time() + timeout_s


@asynccontextmanager
async def _one_asks_for_all(asking: asyncio.Lock, until: float) -> AsyncIterator[None]:
    """Those who wait take over what the first has found; if it leaves or fails, the next asks."""
    async with failing_as(Unavailable, "the primary is being looked for", until), asking:
        yield


async def _check_role(node: Node, until: float) -> None:
    """A sentinel that was cut off may still name the primary of yesterday."""
    (role,) = await node.exchange([("ROLE",)], until)
    # A user who may not ask has the sentinel's word for it.
    if isinstance(role, list) and role[0] != b"master":
        raise Unavailable("the primary that the sentinels name is none; they have not agreed on a new one yet")
