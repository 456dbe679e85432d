"""The interface of every engine."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.domain.stock.command import Command, Verdict


class Gate(Protocol):
    async def apply(self, sku_id: str, commands: Sequence[Command]) -> list[Verdict]:
        """Decide a batch in order, and return only when its changes are durable.

        Raises `Unavailable` if nothing happened and `OutcomeUnknown` if that is not known.
        """
