"""The crowd of one process: buyers as generators, woken when they are due, on a few hundred connections.

An open loop. A buyer acts when their time has come, whether the server keeps up or not, and the latency of what they
ask counts from that moment: waiting for this process or for a free connection is part of it. One heap holds everyone
who waits for a moment; whoever waits for an answer is held by the request alone.
"""

import asyncio
import heapq
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import monotonic
from typing import Any

import altcha
import msgspec

from holdfast.rush.bots import visit
from holdfast.rush.edge import Edge
from holdfast.rush.tally import ATTEMPT, Tally
from holdfast.rush.testimony import Testimony
from holdfast.rush.visitor import Visitor
from holdfast.rush.wire import Wire
from holdfast.rush.wishes import Answer, Ask, Pause, Script, Solve, Step, Together

_SHORTEST_SLEEP_S = 0.001

Arriving = Callable[[int], Visitor]


class _Guest:
    """Someone who is here. `due_at` is when they wanted to act."""

    __slots__ = ("due_at", "heard", "is_gone", "missing", "script", "testimony")

    def __init__(self, testimony: Testimony, script: Script[None], due_at: float) -> None:
        self.testimony, self.script, self.due_at = testimony, script, due_at
        self.heard: list[Answer | None] = []
        self.missing = 0
        self.is_gone = False


class Crowd:
    def __init__(self, wire: Wire, starts_at: float, arriving: Arriving, *, edge_cache: bool) -> None:
        self._wire = wire
        self._starts_at = starts_at
        self._arriving = arriving
        self._edge = Edge(self._send, monotonic) if edge_cache else None
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, _Guest | int]] = []
        self._order = count()
        self._solver = ThreadPoolExecutor(1, "proofs")
        self._timer: asyncio.TimerHandle | None = None
        self._expected = 0
        self._here: dict[int, _Guest] = {}
        self.done = self._loop.create_future()
        self.tally = Tally()
        self.testimonies: list[Testimony] = []

    @property
    def here(self) -> int:
        return len(self._here)

    def begin(self, arrivals: Sequence[tuple[int, float]]) -> None:
        """Who comes when: numbers, and seconds after the start."""
        self._expected = len(arrivals)
        self._heap = [(self._starts_at + at_s, next(self._order), number) for number, at_s in arrivals]
        heapq.heapify(self._heap)
        self._tick()
        self._end_if_empty()

    def cut_off(self) -> None:
        """Whoever is still here tells what they saw so far."""
        self._heap.clear()
        for guest in list(self._here.values()):
            guest.script.close()
            self._leave(guest)
        self._expected = len(self.testimonies)
        self._end_if_empty()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._solver.shutdown(wait=False, cancel_futures=True)

    def _tick(self) -> None:
        now = monotonic()
        while self._heap and self._heap[0][0] <= now:
            due_at, _, who = heapq.heappop(self._heap)
            if isinstance(who, int):
                self._arrive(who, due_at)
            else:
                who.due_at = due_at
                self._resume(who, None)
        self._wake_in(self._heap[0][0] - monotonic() if self._heap else None)

    def _wake_in(self, seconds: float | None) -> None:
        self._timer = None if seconds is None else self._loop.call_later(max(seconds, _SHORTEST_SLEEP_S), self._tick)

    def _arrive(self, number: int, due_at: float) -> None:
        visitor = self._arriving(number)
        visitor.testimony.arrived_at = due_at
        guest = _Guest(visitor.testimony, visit(visitor), due_at)
        self._here[number] = guest
        self._count("arrived", due_at)
        self._resume(guest, None)

    def _resume(self, guest: _Guest, sent: Any) -> None:
        try:
            wish = guest.script.send(sent)
        except StopIteration:
            self._leave(guest)
            return
        if isinstance(wish, Ask):
            self._ask(wish, guest.due_at, lambda answer: self._hear(guest, answer))
        elif isinstance(wish, Pause):
            self._sleep(guest, monotonic() + wish.seconds)
        elif isinstance(wish, Together):
            self._ask_together(guest, wish)
        else:
            self._solve(guest, wish)

    def _hear(self, guest: _Guest, answer: Answer) -> None:
        guest.due_at = answer.at
        if not guest.is_gone:
            self._resume(guest, answer)

    def _sleep(self, guest: _Guest, until: float) -> None:
        is_first = not self._heap or until < self._heap[0][0]
        heapq.heappush(self._heap, (until, next(self._order), guest))
        if is_first:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_in(until - monotonic())

    def _ask(self, ask: Ask, due_at: float, reply: Callable[[Answer], None]) -> None:
        if ask.step is ATTEMPT:
            self._count("attempts", due_at)
        if ask.step is Step.NOW:
            self._count("looks", due_at)
            if self._edge is not None:
                # Not at once: who asks is still in the middle of asking.
                self._loop.call_soon(self._edge.look, ask, due_at, reply)
                return
        self._send(ask, due_at, reply)

    def _send(self, ask: Ask, due_at: float, reply: Callable[[Answer], None]) -> None:
        is_edge = ask.step is Step.NOW and self._edge is not None
        self._wire.send(ask, due_at, lambda answer: self._answered(ask, answer, reply), is_first=is_edge)

    def _answered(self, ask: Ask, answer: Answer, reply: Callable[[Answer], None]) -> None:
        at_s = answer.at - self._starts_at
        self._count("requests", answer.at)
        name = f"{ask.step} {answer.status}"
        self.tally.statuses[name] = self.tally.statuses.get(name, 0) + 1
        if answer.status:
            self.tally.note(ask.step, at_s, answer.at - answer.due_at)
        if ask.step is ATTEMPT:
            self._count("granted" if answer.status in (200, 201) else _refusal(answer), answer.at)
        reply(answer)

    def _ask_together(self, guest: _Guest, together: Together) -> None:
        guest.heard = [None] * len(together.asks)
        guest.missing = len(together.asks)
        for number, ask in enumerate(together.asks):
            self._ask(ask, guest.due_at, lambda answer, number=number: self._hear_one(guest, number, answer))  # type: ignore[misc]

    def _hear_one(self, guest: _Guest, number: int, answer: Answer) -> None:
        guest.heard[number] = answer
        guest.missing -= 1
        if not guest.missing and not guest.is_gone:
            guest.due_at, heard, guest.heard = answer.at, guest.heard, []
            self._resume(guest, heard)

    def _solve(self, guest: _Guest, wish: Solve) -> None:
        def done(work: "asyncio.Future[str]") -> None:
            if not work.cancelled() and not guest.is_gone:
                guest.due_at = monotonic()
                self._resume(guest, work.result())

        self._loop.run_in_executor(self._solver, prove, wish.challenge).add_done_callback(done)

    def _leave(self, guest: _Guest) -> None:
        testimony, guest.is_gone = guest.testimony, True
        testimony.ended_at = monotonic()
        del self._here[testimony.number]
        self.testimonies.append(testimony)
        self._count("ended", testimony.ended_at)
        self._count(f"ending {testimony.ending}", testimony.ended_at)
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        if len(self.testimonies) >= self._expected and not self.done.done():
            self.done.set_result(None)

    def _count(self, name: str, at: float) -> None:
        self.tally.count(name, at - self._starts_at)


def _refusal(answer: Answer) -> str:
    return f"refused {answer.told().reason or 'no_answer'}"


def prove(challenge: bytes) -> str:
    given = altcha.Challenge.from_dict(msgspec.json.decode(challenge))
    solution = altcha.solve_challenge(given)
    return "" if solution is None else altcha.Payload(given, solution).to_base64()
