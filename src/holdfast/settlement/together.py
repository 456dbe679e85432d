"""Settlement work for one pool, done in batches (`runtime/batching.py`).

If one item makes the whole batch fail, each item is processed on its own, so that only that item fails.
"""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.errors import EngineError
from holdfast.runtime.batching import Failed, Item, KeyedBatcher, Result

# Far above what a settler leases at a time.
QUEUE_MAX = 65_536

Do = Callable[[str, Sequence[Item]], Awaitable[Sequence[Result]]]


class Together(KeyedBatcher[Item, Result]):
    def __init__(self, do: Do[Item, Result], *, most: int) -> None:
        super().__init__(self._do_all, batch_max=most, queue_max=QUEUE_MAX)
        self._do = do

    async def _do_all(self, key: str, items: Sequence[Item], /) -> Sequence[Result | Failed]:
        try:
            return await self._do(key, items)
        except EngineError:
            raise
        except Exception:
            if len(items) == 1:
                raise
            return [await self._do_alone(key, item) for item in items]

    async def _do_alone(self, key: str, item: Item) -> Result | Failed:
        try:
            [result] = await self._do(key, [item])
        except Exception as exc:
            return Failed(exc)
        return result
