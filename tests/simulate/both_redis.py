"""A real Valkey and the model of it, side by side: every command goes to both, and both must reply the same."""

import asyncio
from collections.abc import Iterator
from typing import Any

from redis import Redis

from holdfast.gate.redis.encoding import decode
from holdfast.gate.redis.link.port import Command, ErrorReply
from holdfast.gate.redis.link.redis_link import SingleLink, open_link
from holdfast.gate.redis.link.replies import executed
from holdfast.lab.simulate.redis_model.model import RedisModel
from holdfast.lab.simulate.redis_model.values import entry_id
from redis_setup import LINK_TIMEOUT_S
from valkeys import ValkeyProcess

# Their replies depend on the machine, or on what else a server knows about itself.
_OWN = frozenset({"TIME", "INFO", "FUNCTION"})


class BothRedis:
    def __init__(self, valkey: ValkeyProcess, model: RedisModel) -> None:
        self.model = model
        link = open_link(valkey.url, timeout_s=LINK_TIMEOUT_S)
        assert isinstance(link, SingleLink)
        self._link = link
        self._redis: Any = Redis(port=valkey.port, protocol=2)
        self._kept: dict[bytes, bytes] = {}
        self._model_kept = model.snapshot()

    async def call(self, key: str, *commands: Command) -> list[Any]:
        until = asyncio.get_running_loop().time() + LINK_TIMEOUT_S
        replies = await self._link._node.exchange(commands, until)
        for command, reply in zip(commands, replies, strict=True):
            modelled = self.model.execute(command)
            if command[0] not in _OWN:
                assert _comparable(command, modelled) == _comparable(command, reply), command
        return executed(commands, replies)

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        return [await self.call("", *commands)]

    async def close(self) -> None:
        self._redis.close()
        await self._link.close()

    # --- what may happen to a server

    def keep(self) -> None:
        self._kept = {key: self._redis.dump(key) or b"" for key in self._keys()}
        self._model_kept = self.model.snapshot()

    def go_back(self) -> None:
        """To what was kept, as after a restart from an old file or a failover to a replica that was behind."""
        self._redis.flushall()
        for key, value in self._kept.items():
            self._redis.restore(key, 0, value)
        self.model.restart(self._model_kept)

    def contents(self) -> dict[bytes, Any]:
        """Of the real server, as the model gives its own."""
        keys = self._keys()
        with self._redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.type(key)
            kinds = pipeline.execute()
            for key, kind in zip(keys, kinds, strict=True):
                _ask(pipeline, key, kind)
            replies = iter(pipeline.execute())
        return {key: _value(kind, replies) for key, kind in zip(keys, kinds, strict=True)}

    def _keys(self) -> list[bytes]:
        return list(self._redis.scan_iter(count=1000))


def _ask(pipeline: Any, key: bytes, kind: bytes) -> None:
    match kind:
        case b"hash":
            pipeline.hgetall(key)
        case b"zset":
            pipeline.zrange(key, 0, -1, withscores=True)
        case b"stream":
            pipeline.xinfo_stream(key)
            pipeline.xrange(key)
        case _:
            pipeline.get(key)


def _value(kind: bytes, replies: Iterator[Any]) -> Any:
    reply = next(replies)
    match kind:
        case b"zset":
            return tuple((score, member) for member, score in reply)
        case b"stream":
            last_id = entry_id(reply["last-generated-id"])
            return (last_id, *[(entry_id(id_), *_flat(fields)) for id_, fields in next(replies)])
    return reply


def _flat(fields: dict[bytes, bytes]) -> list[bytes]:
    return [word for pair in fields.items() for word in pair]


def in_any_order(contents: dict[bytes, Any]) -> dict[bytes, Any]:
    """Lua walks a table in no order that is promised: the ids of an owner, and what expires at once."""
    return {key: _unordered(key.rpartition(b":")[2], value) for key, value in contents.items()}


def _unordered(name: bytes, value: Any) -> Any:
    if name == b"owners":
        return {owner: tally and [*decode(tally)[:2], sorted(decode(tally)[2])] for owner, tally in value.items()}
    if name == b"journal":
        last_id, *entries = value
        return [last_id, *[(id_, field, _entry(packed)) for id_, field, packed in entries]]
    return value


def _entry(packed: bytes) -> list[Any]:
    now, after, pool, created, moved, remembered, events, *transfers = decode(packed)
    return [now, after, pool, created, sorted(moved), remembered, sorted(map(repr, events)), *transfers]


def _comparable(command: Command, reply: Any) -> Any:
    """Messages name lines of the library; the code of an error is what the product goes by."""
    if command[0] == "XRANGE" and str(command[1]).endswith(":journal"):
        return [(id_, field, _entry(packed)) for id_, (field, packed) in reply]
    return reply.code if isinstance(reply, ErrorReply) else reply
