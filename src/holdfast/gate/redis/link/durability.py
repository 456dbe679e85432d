"""Refuses a Redis that would evict stock or lose what it has acknowledged: at startup, and while it runs. Also reports
when the clock of its host is set.

Nearly all of it is read from INFO, which managed services offer as well. Only the sync policy of the append-only file
needs CONFIG.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from time import monotonic

from holdfast.errors import EngineError, SettingsError
from holdfast.gate.redis.link.port import RedisLink
from holdfast.gate.redis.link.replies import NotPermitted, RedisRefused
from holdfast.runtime.engine_clock import EngineClock, elapsed_ms

# The first version with functions.
_OLDEST = (7, 0)

_CONFIG_FORBIDDEN = (
    "HOLDFAST_REDIS_FSYNC={fsync} cannot be checked, because CONFIG GET is forbidden here ({reason}): grant it with "
    "ACL SETUSER <user> +config|get, or, if your provider offers no CONFIG, ask them how often AOF is synced, or "
    "accept that it may not be with HOLDFAST_REDIS_FSYNC=no"
)

# Somebody may change the configuration at any time.
WATCH_INTERVAL_S = 1.0

Info = Mapping[str, str]


class DurabilityWatch:
    """Whether the configuration still is what it was at startup, and nothing has been evicted."""

    def __init__(self, link: RedisLink, *, fsync: str) -> None:
        self._link = link
        self._fsync = fsync
        self._checked_at = float("-inf")
        self._evicted: int | None = None
        self._clocks: dict[str, EngineClock] = {}
        self._finding: str | None = None

    async def finding(self) -> str | None:
        """The last finding, if a server does not respond: other checks detect that, and it concerns only its own
        pools."""
        if monotonic() - self._checked_at >= WATCH_INTERVAL_S:
            self._checked_at = monotonic()
            with suppress(EngineError, SettingsError):
                self._finding = await self._look()
        return self._finding

    async def _look(self) -> str | None:
        asked_at = elapsed_ms()
        infos = await _infos(self._link)
        stepped = [self._has_stepped(info, asked_at) for info in infos]
        evicted = sum(int(info["evicted_keys"]) for info in infos)
        # A server that was restarted counts from zero.
        has_evicted = evicted > (evicted if self._evicted is None else self._evicted)
        self._evicted = evicted
        if any(info["maxmemory_policy"] != "noeviction" for info in infos):
            return "redis_may_evict"
        policies = await self._policies(infos)
        if any([*_sync_problems(info, self._fsync, policy)] for info, policy in zip(infos, policies, strict=True)):
            return "redis_not_synced"
        return "redis_evicted" if has_evicted else "clock_stepped" if any(stepped) else None

    def _has_stepped(self, info: Info, asked_at: int) -> bool:
        """Whether somebody set this server's clock. No decision depends on it."""
        reading = int(info["server_time_usec"]) // 1000
        clock = self._clocks.get(info["run_id"])
        if clock is None:
            clock = self._clocks[info["run_id"]] = EngineClock("redis")
            clock.start(reading, 0)
        else:
            clock.correct(reading, asked_at)
        return clock.stepped_ms != 0

    async def _policies(self, infos: list[Info]) -> list[str]:
        return [self._fsync] * len(infos) if self._fsync == "no" else await _sync_policies(self._link, self._fsync)


async def check_durability(link: RedisLink, *, fsync: str, replicas_min: int) -> None:
    """Raises with every problem on every primary, each with the command that fixes it."""
    infos = await _infos(link)
    policies = ["no"] * len(infos) if fsync == "no" else await _sync_policies(link, fsync)
    problems = [
        f"Redis on port {info['tcp_port']}: {problem}"
        for info, policy in zip(infos, policies, strict=True)
        for problem in (*find_problems(info, replicas_min), *_sync_problems(info, fsync, policy))
    ]
    if problems:
        raise SettingsError("\n".join(problems))


async def _infos(link: RedisLink) -> list[Info]:
    try:
        return [_parse_info(reply) for (reply,) in await link.call_everywhere(("INFO",))]
    except NotPermitted as exc:
        raise SettingsError(f"Redis cannot be checked ({exc}): grant INFO with ACL SETUSER <user> +info") from exc


def _parse_info(text: bytes) -> Info:
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


async def _sync_policies(link: RedisLink, fsync: str) -> list[str]:
    try:
        return [reply[1].decode() for (reply,) in await link.call_everywhere(("CONFIG", "GET", "appendfsync"))]
    except (NotPermitted, RedisRefused) as exc:
        raise SettingsError(_CONFIG_FORBIDDEN.format(fsync=fsync, reason=exc)) from exc


def find_problems(info: Info, replicas_min: int) -> Iterator[str]:
    version = info["redis_version"]
    if tuple(map(int, version.split(".")[:2])) < _OLDEST:
        yield f"version {version} has no functions; install Redis 7.0 or newer, or Valkey"
    if info["maxmemory_policy"] != "noeviction":
        policy = info["maxmemory_policy"]
        yield f"maxmemory-policy {policy} would evict stock; fix it with CONFIG SET maxmemory-policy noeviction"
    replicas = sum(name.startswith("slave") and "state=online" in value for name, value in info.items())
    if replicas < replicas_min:
        yield (
            f"{replicas} of at least {replicas_min} replicas are connected (HOLDFAST_REDIS_REPLICAS_MIN); connect "
            f"one with REPLICAOF <host of this server> {info['tcp_port']}, sent to it"
        )


def _sync_problems(info: Info, fsync: str, policy: str) -> Iterator[str]:
    # Without a requirement, a server that syncs anyway is only safer.
    if fsync == "no":
        return
    if info["aof_enabled"] != "1":
        yield "appendonly no would lose everything in a restart; fix it with CONFIG SET appendonly yes"
    if policy != fsync:
        yield f"appendfsync is {policy}, but HOLDFAST_REDIS_FSYNC={fsync}; fix it with CONFIG SET appendfsync {fsync}"
