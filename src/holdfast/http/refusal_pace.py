"""When those who do not fit in are told so.

The model. To refuse costs about half as much as to sell, and whoever asks again at once could keep us at nothing else.
So refusals are earned: each answer given to somebody who did fit in earns a part of one, whatever the machine's speed,
and refusing takes no more than about an eighth of the time. What has not been earned waits, first come first served, at
no cost but the memory of an open connection, and that holds back who waits for it: a connection asks one thing at a
time, and there are at most as many as the server accepts.

When it fails. Where nothing is answered nothing is earned; so some are told at every round all the same, and nobody
waits longer than LONGEST_WAIT_S.
"""

import asyncio
from collections import deque
from time import monotonic

REFUSALS_PER_ANSWER = 0.25
# After a rest this many are told at once: a few who came too many shall not wait.
CREDIT_MAX = 250.0
# Of the patrol, which is four times a second.
LEAST_PER_ROUND = 50
LONGEST_WAIT_S = 4.0


class RefusalPace:
    def __init__(self) -> None:
        self._credit = CREDIT_MAX
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()

    async def turn(self) -> None:
        """Returns when a refusal may be given."""
        if self._credit >= 1:
            self._credit -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((monotonic(), turn))
        await turn

    def earn(self) -> None:
        if self._credit < CREDIT_MAX:
            self._credit += REFUSALS_PER_ANSWER
        if self._waiting and self._credit >= 1:
            self._credit -= 1
            self._tell_next()

    def tend(self) -> None:
        """To be called a few times a second."""
        overdue = monotonic() - LONGEST_WAIT_S
        told = 0
        while self._waiting and (told < LEAST_PER_ROUND or self._waiting[0][0] < overdue):
            self._tell_next()
            told += 1

    def _tell_next(self) -> None:
        _, turn = self._waiting.popleft()
        if not turn.done():
            turn.set_result(None)
