"""Wakes whoever looks after rooms when somebody joins, so that they may rest for long while nobody does.

A step every fifth of a second costs an idle server more than all the rest of it. Somebody who joins in another process
rings no bell here; so a rest is short enough for that to be noticed in time all the same.
"""

import asyncio
from contextlib import suppress

# While a line is there and nobody stands in it; and while there is none at all, or none that opens soon.
QUIET_S, EMPTY_S = 1.0, 2.0


class Ear:
    def __init__(self) -> None:
        self._heard = asyncio.Event()

    def hear(self) -> None:
        self._heard.set()

    async def rest(self, seconds: float) -> None:
        """For so long, or until the bell rings; if it has rung since the last rest, not at all."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), seconds)
        self._heard.clear()


class Bell:
    def __init__(self) -> None:
        self._ears: list[Ear] = []

    def ear(self) -> Ear:
        ear = Ear()
        self._ears.append(ear)
        return ear

    def ring(self) -> None:
        for ear in self._ears:
            ear.hear()
