"""Links to Redis: one server, a service behind sentinels, or a cluster.

A call goes to one server in one write, and is never retried once it may have been executed. Its failure is
`Unavailable` if nothing was executed, `OutcomeUnknown` if it may have been, wholly or in part. If the primary has
moved, the next call finds it: sentinels, or the slot map of the cluster, are queried again after every failure that a
move could explain. Only MOVED and ASK are followed within a call, because such a reply means that nothing was executed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.errors import EngineError, Unavailable
from holdfast.gate.redis.link.connection import Dialer, Node, failing_as, tls_context
from holdfast.gate.redis.link.discovery import Cluster, Sentinels
from holdfast.gate.redis.link.port import Command, RedisLink
from holdfast.gate.redis.link.redis_url import Address, Topology, parse_redis_url
from holdfast.gate.redis.link.replies import RedisRefused, SlotMigrating, executed, executed_everywhere, redirect
from holdfast.gate.redis.link.slots import SLOTS, key_slot

# One command moves all keys of a pool, unless the operator's tool is configured to move them one by one.
MIGRATION_PATIENCE_S = 1.0
MIGRATION_PAUSE_S = 0.02
# A migrating slot takes two; more than this means the cluster is inconsistent.
_REDIRECTS_MAX = 4


def open_link(url: str, *, timeout_s: float = 2.0, connections: int = 8) -> RedisLink:
    """Connects when it is first used. `connections` is the limit per server."""
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
        self._searching = asyncio.Lock()

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
        async with _single_search(self._searching, until):
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
        self._searching = asyncio.Lock()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        until = _until(self._timeout_s)
        owner = (await self._slots(until))[key_slot(key.encode())]
        if owner is None:
            self._owners = None
            raise Unavailable("no server of the cluster owns this key now")
        try:
            return await self._follow_patiently(owner, commands, until)
        except RedisRefused:
            raise
        except EngineError:
            self._owners = None
            raise

    async def _follow_patiently(self, address: Address, commands: Sequence[Command], until: float) -> list[Any]:
        """Keys that are being moved are soon all on one server again, and nothing was executed."""
        patient_until = min(until, _until(MIGRATION_PATIENCE_S))
        while True:
            try:
                return await self._follow(address, commands, until)
            except SlotMigrating:
                if _until(MIGRATION_PAUSE_S) >= patient_until:
                    raise
            await asyncio.sleep(MIGRATION_PAUSE_S)

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

    async def key_per_primary(self, name: str) -> list[str]:
        """For every primary, a key of this name that it owns."""
        owners = await self._slots(_until(self._timeout_s))
        keys: dict[Address, str] = {}
        primaries = {owner for owner in owners if owner is not None}
        # Tags spread evenly over the slots, so each primary is met soon, however few it owns.
        for tag in range(SLOTS):
            owner = owners[key_slot(f"{tag}".encode())]
            if owner is not None and len(keys) < len(primaries):
                keys.setdefault(owner, f"{name}:{{{tag}}}")
        return list(keys.values())

    async def _call_at(self, address: Address, commands: Sequence[Command], until: float) -> list[Any]:
        return executed(commands, await self._node(address).exchange(commands, until))

    async def _slots(self, until: float) -> list[Address | None]:
        owners = self._owners
        if owners is None:
            async with _single_search(self._searching, until):
                owners = self._owners or await self._cluster.owners(self._nodes, until)
                self._owners = owners
                await self._close_unowned(owners)
        return owners

    async def _close_unowned(self, owners: list[Address | None]) -> None:
        for address in self._nodes.keys() - set(owners):
            await self._nodes.pop(address).close()

    def _node(self, address: Address) -> Node:
        if address not in self._nodes:
            self._nodes[address] = self._new_node(address)
        return self._nodes[address]

    async def close(self) -> None:
        await self._close_unowned([])


def _until(timeout_s: float) -> float:
    return asyncio.get_running_loop().time() + timeout_s


@asynccontextmanager
async def _single_search(searching: asyncio.Lock, until: float) -> AsyncIterator[None]:
    """One caller searches while the others wait and share its result; if it fails or leaves, the next one searches."""
    async with failing_as(Unavailable, "the primary is being looked for", until), searching:
        yield


async def _check_role(node: Node, until: float) -> None:
    """A partitioned sentinel may still name a former primary."""
    (role,) = await node.exchange([("ROLE",)], until)
    # If ROLE is not permitted, the sentinel is trusted.
    if isinstance(role, list) and role[0] != b"master":
        raise Unavailable("the server that the sentinels name is not a primary; they have not agreed on a new one yet")
