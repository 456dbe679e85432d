"""A Redis that would evict stock, or forget what it has promised, is refused at start.

Nearly all of it is read from INFO, which managed services offer as well. Only how often the append-only file is synced
is told by CONFIG alone.
"""

from collections.abc import Iterator, Mapping

from holdfast.errors import SettingsError
from holdfast.gate.link.port import RedisLink
from holdfast.gate.link.replies import NotPermitted, RedisRefused

# The first with functions.
_OLDEST = (7, 0)

_CONFIG_FORBIDDEN = (
    "HOLDFAST_REDIS_FSYNC={fsync} cannot be checked, because CONFIG GET is forbidden here ({reason}): grant it with "
    "ACL SETUSER <user> +config|get, or, if your provider offers no CONFIG, find out from them that AOF is synced "
    "so, or accept that it may not be with HOLDFAST_REDIS_FSYNC=no"
)

Info = Mapping[str, str]


async def check_durability(link: RedisLink, *, fsync: str, replicas_min: int) -> None:
    """Every problem on every primary, each with the command that mends it."""
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
        yield f"maxmemory-policy {policy} would throw away stock; mend it with CONFIG SET maxmemory-policy noeviction"
    replicas = sum(name.startswith("slave") and "state=online" in value for name, value in info.items())
    if replicas < replicas_min:
        yield (
            f"{replicas} of at least {replicas_min} replicas are connected (HOLDFAST_REDIS_REPLICAS_MIN); connect "
            f"one with REPLICAOF <host of this server> {info['tcp_port']}, sent to it"
        )


def _sync_problems(info: Info, fsync: str, policy: str) -> Iterator[str]:
    # Where none is asked for, a server that syncs nevertheless is only the safer.
    if fsync == "no":
        return
    if info["aof_enabled"] != "1":
        yield "appendonly no would forget everything in a restart; mend it with CONFIG SET appendonly yes"
    if policy != fsync:
        yield f"appendfsync is {policy}, but HOLDFAST_REDIS_FSYNC={fsync}; mend it with CONFIG SET appendfsync {fsync}"
