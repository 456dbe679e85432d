"""Requests go through a queue to a single consumer, which handles them one by one: with one writer, nothing needs a
lock.

The queue is a list in Valkey, and so is the place where a client waits for its response. Nothing is batched: a consumer
that takes many messages at once and commits them together is what Holdfast does.
"""

import asyncio
from typing import Any

from holdfast.lab.bench.baselines.contended import read_check_write

_QUEUE = "reservations"
_ANSWER_KEPT_S = 60


class QueueConsumer:
    def __init__(self, clients: Any, consumer: Any, connection: Any) -> None:
        """The consumer has its own Redis client and database connection."""
        self._clients, self._consumer, self.connection = clients, consumer, connection
        self._consuming: asyncio.Task[None] | None = None

    async def take(self, _connection: Any, reservation_id: str, owner_id: str) -> bool:
        if self._consuming is None:
            self._consuming = asyncio.create_task(self._consume())
        await self._clients.lpush(_QUEUE, f"{reservation_id} {owner_id}")
        answer = await self._clients.blpop([_answer(reservation_id)], timeout=0)
        return bool(answer[1] == b"1")

    async def _consume(self) -> None:
        while True:
            message = await self._consumer.brpop([_QUEUE], timeout=0)
            reservation_id, owner_id = message[1].decode().split(" ")
            async with self.connection.transaction():
                is_granted = await read_check_write(self.connection, reservation_id, owner_id)
            async with self._consumer.pipeline(transaction=False) as pipeline:
                pipeline.rpush(_answer(reservation_id), int(is_granted))
                pipeline.expire(_answer(reservation_id), _ANSWER_KEPT_S)
                await pipeline.execute()

    async def close(self) -> None:
        if self._consuming is not None:
            self._consuming.cancel()
            await asyncio.wait([self._consuming])


def _answer(reservation_id: str) -> str:
    return f"answer:{reservation_id}"
