"""When a refusal is sent.

The model. A refusal costs about half as much as a sale, and clients that retry at once could keep the server busy with
nothing else. So refusals are earned: each answer to an admitted request earns a part of one, whatever the machine's
speed, so refusing takes at most about an eighth of the time. A refusal that is not earned yet waits, first come first
served, and costs only the memory of an open connection. That also slows its client down: a connection has one request
at a time, and the number of connections is bounded.

When it fails. If nothing is answered, nothing is earned; so a few are sent in every round regardless, and no refusal
waits longer than LONGEST_WAIT_S.
"""

import asyncio
from collections import deque
from time import monotonic

REFUSALS_PER_ANSWER = 0.25
# After a quiet period this many are sent at once, so that a small excess does not wait.
CREDIT_MAX = 250.0
# Of the reaper's rounds, four a second.
LEAST_PER_ROUND = 50
LONGEST_WAIT_S = 4.0


class RefusalPace:
    def __init__(self) -> None:
        self._credit = CREDIT_MAX
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()

    async def turn(self) -> None:
        """Returns when a refusal may be sent."""
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
            self._send_next()

    def tend(self) -> None:
        """To be called a few times a second."""
        overdue = monotonic() - LONGEST_WAIT_S
        sent = 0
        while self._waiting and (sent < LEAST_PER_ROUND or self._waiting[0][0] < overdue):
            self._send_next()
            sent += 1

    def _send_next(self) -> None:
        _, turn = self._waiting.popleft()
        if not turn.done():
            turn.set_result(None)
