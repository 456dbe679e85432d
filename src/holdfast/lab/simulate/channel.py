"""Calls between the parts of the system: each takes some time, and may be lost, delayed or duplicated in transit.

The callee executes a call whether or not its caller is still alive. The caller gets the result, `NotReached` (nothing
was done) or `NoAnswer` (the outcome is unknown).
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.lab.simulate.faults import Fault, Kind
from holdfast.lab.simulate.loop import HOST, Host, SimulatedLoop
from holdfast.lab.simulate.trace import Trace

T = TypeVar("T")

# A broken connection is noticed sooner than a missing reply.
BREAKS_S = 0.02


class NotReached(Exception):
    pass


class NoAnswer(Exception):
    pass


class Call(Struct, frozen=True, eq=False):
    what: str
    carry_out: Callable[[Fault | None], Any]
    reply: asyncio.Future[Any]
    caller: Host
    fault: Fault | None

    @property
    def kind(self) -> Kind | None:
        return None if self.fault is None else self.fault.kind

    @property
    def has_left(self) -> bool:
        return self.reply.done() or self.caller.is_dead


class Channel:
    def __init__(
        self, name: str, loop: SimulatedLoop, rng: Random, trace: Trace, latency_s: tuple[float, float]
    ) -> None:
        self.name = name
        self.calls = 0
        self.is_down = False
        self.cut_off: set[str] = set()
        # Callers whose calls were duplicated. Their response belongs to one of the two executions.
        self.repeated_for: set[str] = set()
        self.loop, self.trace = loop, trace
        self._rng, self._latency_s = rng, latency_s
        self._faults: dict[int, Fault] = {}
        # Reads are frequent and say little, so they are not traced.
        self.is_noted = name != "read"

    def plan(self, fault: Fault) -> None:
        self._faults[fault.nth] = fault

    def heal(self) -> None:
        self.is_down = False
        self.cut_off.clear()
        self._faults.clear()

    async def call(self, what: str, carry_out: Callable[[Fault | None], T], timeout_s: float) -> T:
        self.calls += 1
        fault, caller = self._faults.get(self.calls), HOST.get()
        if fault is not None:
            self.trace.note("FAULT", fault, "in", what)
        reply: asyncio.Future[T] = self.loop.create_future()
        self._send(Call(what, carry_out, reply, caller, fault))
        try:
            async with asyncio.timeout(timeout_s):
                return await reply
        except TimeoutError:
            raise NoAnswer(f"{self.name} did not answer in time") from None

    def delay_s(self) -> float:
        return self._rng.uniform(*self._latency_s)

    def _send(self, call: Call) -> None:
        delay_s = self.delay_s()
        if call.fault is not None and call.kind in (Kind.SLOW, Kind.LATE):
            delay_s += call.fault.by
        if call.kind is not Kind.LOST_REQUEST:
            self.loop.call_in_world(delay_s, self._arrive, call)
        if call.kind is Kind.DUPLICATED:
            self.repeated_for.add(call.caller.name)
            again = Call(call.what, call.carry_out, self.loop.create_future(), call.caller, None)
            self.loop.call_in_world(delay_s + 5 * self.delay_s(), self._arrive, again)

    def _arrive(self, call: Call) -> None:
        # A call delayed until its caller has left is dropped with the connection.
        is_dropped = call.has_left and (call.kind is Kind.SLOW or self._rng.random() < 0.5)
        if (is_dropped and call.kind is not Kind.LATE) or self.is_down or call.caller.name in self.cut_off:
            self.loop.call_in_world(BREAKS_S, _fail, call.reply, NotReached(f"{self.name} cannot be reached"))
            return
        token = HOST.set(call.caller)
        try:
            self._perform(call)
        finally:
            HOST.reset(token)

    def _perform(self, call: Call) -> None:
        try:
            result = call.carry_out(call.fault)
        except Exception as exc:
            self.trace.note(self.name, call.what, f"-> {type(exc).__name__}: {exc}")
            self.respond(call, exc, is_failure=True)
        else:
            if self.is_noted:
                self.trace.note(self.name, call.what)
            self.respond(call, result)

    def respond(self, call: Call, result: Any, *, is_failure: bool = False) -> None:
        if call.kind is Kind.LOST_REPLY:
            if self._rng.random() < 0.7:
                self.loop.call_in_world(BREAKS_S, _fail, call.reply, NoAnswer(f"the reply of {self.name} was lost"))
            return
        self.loop.call_in_world(self.delay_s(), _fail if is_failure else _answer, call.reply, result)


def _answer(reply: asyncio.Future[T], result: T) -> None:
    if not reply.done():
        reply.set_result(result)


def _fail(reply: asyncio.Future[T], exc: Exception) -> None:
    if not reply.done():
        reply.set_exception(exc)
