"""Redis: whether it is reachable, durable and in sync with the ledger's clock."""

import time

from holdfast.cli.doctor.finding import Finding, fail, ok, warn
from holdfast.errors import EngineError, SettingsError
from holdfast.gate.redis.library import NAME
from holdfast.gate.redis.link.durability import check_durability
from holdfast.gate.redis.link.port import RedisLink
from holdfast.gate.redis.link.redis_link import open_link
from holdfast.settings import Settings

# Deadlines use Redis's clock, lists the ledger's. A larger difference would be visible.
SKEW_MAX_S = 1.0


async def examine_redis(settings: Settings) -> list[Finding]:
    link = open_link(settings.redis_url, timeout_s=settings.redis_timeout_ms / 1000)
    try:
        return [await _check_server(link), *await _check_durability(link, settings), await _check_clock(link)]
    except EngineError as exc:
        return [fail("redis", str(exc), "start Redis or Valkey, or correct HOLDFAST_REDIS_URL")]
    finally:
        await link.close()


async def _check_server(link: RedisLink) -> Finding:
    started = time.perf_counter()
    primaries = await link.call_everywhere(["PING"])
    took_ms = (time.perf_counter() - started) * 1000
    libraries = await link.call_everywhere(["FUNCTION", "LIST", "LIBRARYNAME", NAME])
    loaded = "loaded" if all(replies[0] for replies in libraries) else "not loaded yet; a server loads it at startup"
    count = "one primary" if len(primaries) == 1 else f"{len(primaries)} primaries"
    return ok("redis", f"{count}, answers in {took_ms:.1f} ms; function library {loaded}")


async def _check_durability(link: RedisLink, settings: Settings) -> list[Finding]:
    try:
        await check_durability(link, fsync=settings.redis_fsync, replicas_min=settings.redis_replicas_min)
    except SettingsError as exc:
        problems = [line.rpartition("; ") for line in str(exc).splitlines()]
        return [fail("redis disk", found or fix, fix) for found, _, fix in problems]
    if settings.redis_fsync == "always":
        return [ok("redis disk", "every write is on disk before it is acknowledged")]
    found = f"HOLDFAST_REDIS_FSYNC={settings.redis_fsync}: a Redis crash loses the last writes"
    return [warn("redis disk", found, "accept that holds may be lost, or set HOLDFAST_REDIS_FSYNC=always")]


async def _check_clock(link: RedisLink) -> Finding:
    [[answer], *_] = await link.call_everywhere(["TIME"])
    skew = int(answer[0]) + int(answer[1]) / 1_000_000 - time.time()
    if abs(skew) < SKEW_MAX_S:
        return ok("redis clock", f"within {abs(skew):.1f} s of this host's")
    return warn(
        "redis clock",
        f"{skew:+.1f} s from this host's",
        "synchronise both clocks with NTP: deadlines use Redis's clock",
    )
