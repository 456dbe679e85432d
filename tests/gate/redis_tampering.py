"""What can be done to a link, and behind the back of the gate, to make things go wrong at one point."""

from collections.abc import Awaitable, Callable
from typing import Any

from redis import Redis

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.gate.redis.client import RedisClient
from holdfast.gate.redis.encoding import Keys
from holdfast.gate.redis.link.port import Command, RedisLink
from holdfast.testing.states import SKU
from redis_setup import RedisSetup
from valkeys import ValkeyProcess

KEYS = Keys(SKU)
# A key of an empty pool has one entry.
EMPTY = 1


class Through:
    """A link that does as the one behind it."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def call(self, key: str, *commands: Command) -> list[Any]:
        return await self._link.call(key, *commands)

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        return await self._link.call_everywhere(*commands)

    async def close(self) -> None:
        await self._link.close()


def is_apply(commands: tuple[Command, ...]) -> bool:
    return commands[0][:2] == ["FCALL", "holdfast_apply_v2"]


class Repeating(Through):
    """Sends every batch twice, as it stands, and keeps what was answered."""

    def __init__(self, link: RedisLink) -> None:
        super().__init__(link)
        self.answers: list[list[Any]] = []

    async def call(self, key: str, *commands: Command) -> list[Any]:
        times = 2 if is_apply(commands) else 1
        answers = [await super(Repeating, self).call(key, *commands) for _ in range(times)]
        self.answers += answers
        return answers[-1]


class Interrupted(Through):
    """Something happens after the first batch was executed, before anybody hears of it."""

    def __init__(self, link: RedisLink, happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(link)
        self._happens = happens
        self.is_first = True

    async def call(self, key: str, *commands: Command) -> list[Any]:
        answer = await super().call(key, *commands)
        if is_apply(commands) and self.is_first:
            self.is_first = False
            await self._happens()
        return answer


async def lose_the_answer() -> None:
    raise OutcomeUnknown("the answer was lost")


class Refusing(Through):
    """Whatever `refuses` says yes to is not executed."""

    def __init__(self, link: RedisLink, refuses: Callable[[str, Command], bool]) -> None:
        super().__init__(link)
        self._refuses = refuses

    async def call(self, key: str, *commands: Command) -> list[Any]:
        if any(self._refuses(key, command) for command in commands):
            raise Unavailable("refused by the test")
        return await super().call(key, *commands)


def over(link: RedisLink) -> RedisClient:
    return RedisClient(link)


def forgets_nothing(_key: str, command: Command) -> bool:
    return command[1] == "holdfast_trim_v2"


def client(valkey: ValkeyProcess) -> "Redis":
    return Redis(port=valkey.port)


def copy_of(valkey: ValkeyProcess, match: str = KEYS.prefix + "*") -> dict[bytes, bytes]:
    """All that Redis has of the pool, now."""
    with client(valkey) as redis:
        copied = {key: redis.dump(key) for key in redis.scan_iter(match=match)}
    return {key: value for key, value in copied.items() if value is not None}


def put_back(valkey: ValkeyProcess, copied: dict[bytes, bytes], match: str = KEYS.prefix + "*") -> None:
    """As after a failover to a replica that was behind: everything is as it was then."""
    with client(valkey) as redis:
        for key in redis.scan_iter(match=match):
            redis.delete(key)
        for key, value in copied.items():
            redis.restore(key, 0, value)


async def check_books(world: RedisSetup) -> None:
    """Gate and ledger are right, each by itself and side by side."""
    snapshot = await world.snapshot(SKU)
    snapshot.check()
    gate = await world.gate_pool(SKU)
    assert gate.is_open
    assert gate.pool == snapshot.pool
    assert gate.at == await world.position(SKU)
    reports = await world.reconciler.pass_once(thorough=True)
    assert reports[SKU].finding is None
