"""A link that refuses at once while Redis does not answer.

For one server and for a service that sentinels watch over. In a cluster each server fails for itself, and those that
are well must not be kept from answering by one that is not.
"""

import asyncio
from typing import Any

from holdfast.domain.breaker import Breaker
from holdfast.errors import EngineError, OutcomeUnknown
from holdfast.gate.link.port import Command, RedisLink
from holdfast.gate.link.redis_link import ClusterLink
from holdfast.gate.link.replies import RedisRefused
from holdfast.pulse import Pulse


class GuardedLink:
    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._pulse = Pulse("redis", lambda: link.call_everywhere(["PING"]))

    @property
    def breaker(self) -> Breaker:
        return self._pulse.breaker

    async def call(self, key: str, *commands: Command) -> list[Any]:
        try:
            async with self._pulse.call(None):
                return await self._link.call(key, *commands)
        except RedisRefused:
            raise
        except TimeoutError as exc:
            self._pulse.failed()
            raise OutcomeUnknown("Redis does not answer; what it was sent may have been executed") from exc
        except EngineError:
            if self._pulse.breaker.is_closed:
                self._pulse.failed()
            raise

    async def call_everywhere(self, *commands: Command) -> list[list[Any]]:
        return [await self.call("", *commands)]

    async def close(self) -> None:
        await self._pulse.close()
        # A loop that ends takes the rest along; the link has connections to close first.
        await asyncio.shield(self._link.close())


def guarded(link: RedisLink) -> RedisLink:
    return link if isinstance(link, ClusterLink) else GuardedLink(link)
