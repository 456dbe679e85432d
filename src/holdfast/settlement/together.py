"""What many do at the same place at the same time, done once for all of them.

As the batcher does for commands: the first starts at once, and those who come while it is under way go together next.
If one of them makes the whole fail, each is done by itself, so that only that one does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import EngineError

Item = TypeVar("Item")
Result = TypeVar("Result")

Do = Callable[[str, Sequence[Item]], Awaitable[list[Result]]]


class Together(Generic[Item, Result]):
    def __init__(self, do: Do[Item, Result], *, most: int) -> None:
        self._do = do
        self._most = most
        self._waiting: dict[str, list[tuple[Item, asyncio.Future[Result]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, place: str, item: Item) -> Result:
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        if place in self._waiting:
            self._waiting[place].append((item, answer))
        else:
            self._waiting[place] = [(item, answer)]
            task = asyncio.create_task(self._serve(place))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _serve(self, place: str) -> None:
        waiting = self._waiting[place]
        while waiting:
            group = waiting[: self._most]
            del waiting[: self._most]
            await self._answer(place, group)
        del self._waiting[place]

    async def _answer(self, place: str, group: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._do(place, [item for item, _ in group])
        except Exception as exc:
            if len(group) > 1 and not isinstance(exc, EngineError):
                for one in group:
                    await self._answer(place, [one])
                return
            for _, answer in group:
                if not answer.done():
                    answer.set_exception(exc)
            return
        for (_, answer), result in zip(group, results, strict=True):
            if not answer.done():
                answer.set_result(result)
