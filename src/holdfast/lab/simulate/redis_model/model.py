"""The server: commands, functions, configuration, and the data loss it may suffer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.gate.redis.link.port import Command, ErrorReply
from holdfast.lab.simulate.redis_model.functions import Library, library
from holdfast.lab.simulate.redis_model.keyspace import Keyspace
from holdfast.lab.simulate.redis_model.values import Refused, Reply, SortedSet, Status, Stream, Value, Words

# Refused while Redis cannot write; commands that only free memory still run.
_WRITES = frozenset({b"SET", b"HSET", b"HDEL", b"UNLINK", b"DEL", b"XADD", b"XTRIM", b"ZADD", b"ZREM"})
Plain: TypeAlias = bytes | dict[bytes, bytes] | tuple[object, ...]


@dataclass(frozen=True)
class Snapshot:
    """What a server had on disk, or a replica had received, at some moment."""

    values: Mapping[bytes, Value]
    expires_at: Mapping[bytes, int]
    library: Library | None


@dataclass
class RedisModel:
    """`now_us` is its clock. `refusing_writes` is the error that Redis replies while its memory or disk is full."""

    now_us: Callable[[], int]
    config: dict[bytes, bytes] = field(
        default_factory=lambda: {b"appendfsync": b"always", b"appendonly": b"yes", b"maxmemory-policy": b"noeviction"}
    )
    evicted_keys: int = 0
    replicas: int = 0
    refusing_writes: ErrorReply | None = None

    def __post_init__(self) -> None:
        self._starts = 1
        self._library: Library | None = None
        self._keys = keys = Keyspace(lambda: self.now_us() // 1000)
        self._commands: dict[bytes, Callable[[Words], Reply]] = {
            **{
                name.upper().encode(): getattr(keys, name)
                for name in (
                    *("exists", "scan", "unlink", "get", "set", "hget", "hmget", "hlen", "hvals", "hset", "hdel"),
                    *("hincrby", "hscan", "zadd", "zrem", "zcard", "zscore", "zrange", "zrangebyscore"),
                    *("xadd", "xlen", "xrange", "xtrim"),
                )
            },
            b"DEL": keys.unlink,
            b"TIME": self._time,
            b"PING": lambda _: Status(b"PONG"),
            b"INFO": self._info,
            b"CONFIG": self._config,
            b"FUNCTION": self._function,
            b"FCALL": self._fcall,
            b"WAIT": lambda _: self.replicas,
            b"FLUSHALL": self._flush,
        }

    def execute(self, command: Command) -> Reply:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
        try:
            return self._run(words, may_write=self.refusing_writes is None)
        except Refused as exc:
            return exc.reply

    def _run(self, words: Words, *, may_write: bool) -> Reply:
        name = words[0].upper()
        run = self._commands.get(name)
        if run is None:
            raise Refused("ERR", f"unknown command '{name.decode()}'")
        if name in _WRITES and not may_write:
            raise self._refusal()
        return run(words[1:])

    def _refusal(self) -> Refused:
        assert self.refusing_writes is not None
        return Refused(self.refusing_writes.code, self.refusing_writes.message)

    # --- functions

    def _function(self, words: Words) -> Reply:
        match [words[0].upper(), *words[1:]]:
            case [b"LOAD", b"REPLACE", text]:
                self._library = library(text)
                return self._library.name
            case [b"LIST", b"LIBRARYNAME", name, b"WITHCODE"]:
                found = self._library
                if found is None or found.name != name:
                    return []
                return [[b"library_name", name, b"engine", b"LUA", b"library_code", found.text]]
            case [b"FLUSH"]:
                self._library = None
                return Status(b"OK")
        raise Refused("ERR", "unknown subcommand of FUNCTION")

    def _fcall(self, words: Words) -> Reply:
        name, count = words[0], int(words[1])
        function = None if self._library is None else self._library.functions.get(name)
        if self._library is None or function is None:
            raise Refused("ERR", "Function not found")
        full = self.refusing_writes
        if full is not None and not (b"no-writes" in function.flags or self._may_free(function.flags)):
            raise self._refusal()
        keys, arguments = words[2 : 2 + count], words[2 + count :]
        return self._library.run(function, keys, arguments, lambda inner: self._run(inner, may_write=True))

    def _may_free(self, flags: frozenset[bytes]) -> bool:
        full = self.refusing_writes
        return full is not None and full.code == "OOM" and b"allow-oom" in flags

    # --- the server

    def _time(self, words: Words) -> Reply:
        return [b"%d" % part for part in divmod(self.now_us(), 1_000_000)]

    def _info(self, words: Words) -> Reply:
        found = {
            "redis_version": "7.2.4",
            "run_id": f"{self._starts:040x}",
            "tcp_port": 6379,
            "server_time_usec": self.now_us(),
            "maxmemory_policy": self.config[b"maxmemory-policy"].decode(),
            "aof_enabled": int(self.config[b"appendonly"] == b"yes"),
            "evicted_keys": self.evicted_keys,
            **{f"slave{n}": "state=online" for n in range(self.replicas)},
        }
        return "".join(f"{name}:{value}\r\n" for name, value in found.items()).encode()

    def _config(self, words: Words) -> Reply:
        match [words[0].upper(), *words[1:]]:
            case [b"GET", name]:
                return [name, self.config[name]] if name in self.config else []
            case [b"SET", name, value]:
                self.config[name] = value
                return Status(b"OK")
        raise Refused("ERR", "unknown subcommand of CONFIG")

    def _flush(self, words: Words) -> Reply:
        self._keys.values.clear()
        self._keys.expires_at.clear()
        return Status(b"OK")

    # --- faults

    def snapshot(self) -> Snapshot:
        return Snapshot(_copied(self._keys.values), dict(self._keys.expires_at), self._library)

    def restart(self, found: Snapshot | None) -> None:
        """Restart as a new process with what is on disk: a snapshot, or nothing."""
        self._starts += 1
        self._flush([])
        self.evicted_keys = 0
        self._library = None if found is None else found.library
        if found is not None:
            self._keys.values.update(_copied(found.values))
            self._keys.expires_at.update(found.expires_at)

    def keys(self) -> list[bytes]:
        return sorted(self._keys.values)

    def contents(self) -> dict[bytes, Plain]:
        """The whole content, for comparison."""
        return {key: _plain(value) for key, value in self._keys.values.items()}


def _copied(values: Mapping[bytes, Value]) -> dict[bytes, Value]:
    return {key: value if isinstance(value, bytes) else value.copy() for key, value in values.items()}


def _plain(value: Value) -> Plain:
    match value:
        case SortedSet():
            return tuple(value.order)
        case Stream():
            return (value.last_id, *[(entry_id, *fields) for entry_id, fields in value.entries])
        case dict():
            return dict(value)
    return value
