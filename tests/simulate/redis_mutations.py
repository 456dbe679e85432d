"""Defects of the gate in Redis that the simulator must find, most of them faults that were there once."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.gate.redis import client
from holdfast.gate.redis.drainer import Drainer
from holdfast.gate.redis.library import source


def manifest_not_checked(patch: pytest.MonkeyPatch) -> None:
    """A pool that lost one of its keys goes on deciding."""
    real = source()
    checked = "local function is_torn(keys, pool)"
    assert checked in real
    patch.setattr(client, "source", lambda: real.replace(checked, f"{checked}\n  if true then return false end", 1))


def trimmed_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """The drainer removes entries from the journal and stores them afterwards."""
    real = Drainer.drain_some

    async def drain_some(self: Any, sku_id: str, at: Any) -> int:
        _, entries = await self._read(sku_id, at)
        if entries:
            last = entries[-1]
            await self._trim(sku_id, type(at)(last.epoch, last.seq), entries)
            await self._database.write(lambda c: self._journal.store(c, sku_id, entries))
            return len(entries)
        return await real(self, sku_id, at)

    patch.setattr(Drainer, "drain_some", drain_some)


REDIS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    mutate.__name__: mutate for mutate in (manifest_not_checked, trimmed_before_it_is_stored)
}
