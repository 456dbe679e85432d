"""Wakes the agents of waiting rooms when someone joins, so that they can sleep longer while nobody does.

A pass every fifth of a second would cost an idle server more than everything else it does. A join in another process
does not wake the agents here, so even the longest sleep is short enough to notice it in time.
"""

import asyncio

# The sleep while a room is open but nobody waits, and while no room is open or opens soon.
QUIET_S, EMPTY_S = 1.0, 2.0


class Wakeup:
    def __init__(self) -> None:
        self._events: list[asyncio.Event] = []

    def subscribe(self) -> asyncio.Event:
        event = asyncio.Event()
        self._events.append(event)
        return event

    def wake(self) -> None:
        for event in self._events:
            event.set()
