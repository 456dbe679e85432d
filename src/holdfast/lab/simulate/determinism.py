"""Replaces the product's time, randomness and log with the simulation's during a run.

Modules of the product import clocks and random functions by name (`from time import monotonic`), so these names are
replaced in every module and restored afterwards. A new source of time or randomness in the product that is missing here
makes runs of the same seed differ, which the tests detect.
"""

import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

import structlog
import uuid_utils
from msgspec import Struct

from holdfast.lab.simulate.loop import HOST, SimulatedLoop
from holdfast.runtime.garbage import tune_gc

# Arbitrary; the product only requires that it is not the epoch itself.
EPOCH_S = 1_800_000_000
# Elapsed time at the start. Not zero: the product uses 0.0 for "never" in places.
STARTED_S = 1_000.0

Note = Callable[..., None]


class Clock:
    """The time that processes see: elapsed time is common to all, and the wall clock of each host can be set."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s

    def monotonic(self) -> float:
        return STARTED_S + self._now_s()

    def monotonic_ns(self, *_clock: int) -> int:
        return round(self.monotonic() * 1_000_000) * 1_000

    def time_ns(self) -> int:
        return round((EPOCH_S + self._now_s()) * 1_000_000) * 1_000 + HOST.get().wall_step_ms * 1_000_000

    def time(self) -> float:
        return self.time_ns() / 1e9


def _ignore(_event: str, **_facts: object) -> None:
    """Used until a run has a world."""


class Log:
    """Replaces every logger."""

    note: Note = staticmethod(_ignore)

    def _log(self, event: str, **facts: object) -> None:
        self.note(event, **facts)

    info = debug = warning = error = _log

    def exception(self, event: str, **facts: object) -> None:
        self.note(event, **{"exc_info": sys.exc_info()[1], **facts})


def _nothing() -> None: ...


def _ids(rng: Random, clock: Clock) -> dict[Any, Any]:
    def uuid7() -> UUID:
        """Ordered by time, like real ones."""
        number = (clock.time_ns() // 1_000_000 << 80) | rng.getrandbits(80)
        return UUID(int=number & ~(0xF << 76) | (0x7 << 76))

    def uuid4() -> UUID:
        return UUID(int=rng.getrandbits(128), version=4)

    return {uuid_utils.uuid7: uuid7, uuid_utils.uuid4: uuid4, uuid.uuid4: uuid4}


def _modules(rng: Random, clock: Clock) -> dict[Any, Any]:
    def token_bytes(count: int = 32) -> bytes:
        return rng.randbytes(count)

    fake_secrets = SimpleNamespace(
        token_bytes=token_bytes,
        token_hex=lambda count=32: token_bytes(count).hex(),
        token_urlsafe=lambda count=32: token_bytes(count).hex(),
        randbelow=rng.randrange,
        randbits=rng.getrandbits,
        choice=rng.choice,
        compare_digest=secrets.compare_digest,
    )
    fake_time = SimpleNamespace(
        monotonic=clock.monotonic,
        perf_counter=clock.monotonic,
        time=clock.time,
        time_ns=clock.time_ns,
        clock_gettime_ns=clock.monotonic_ns,
        CLOCK_MONOTONIC=time.CLOCK_MONOTONIC,
    )
    return {secrets: fake_secrets, time: fake_time, random: rng}


def _replacements(rng: Random, clock: Clock, log: Log) -> dict[int, Any]:
    functions = {
        time.monotonic: clock.monotonic,
        time.perf_counter: clock.monotonic,
        time.time: clock.time,
        time.time_ns: clock.time_ns,
        # A server does this once, at start; here every simulated process would scan the whole heap.
        tune_gc: _nothing,
    }
    fake_structlog = SimpleNamespace(get_logger=lambda *_: log)
    known = functions | _ids(rng, clock) | _modules(rng, clock) | {structlog: fake_structlog}
    return {id(real): fake for real, fake in known.items()}


_LOGGER = type(structlog.get_logger())


@contextmanager
def controlled(rng: Random, loop: SimulatedLoop, log: Log) -> Iterator[None]:
    """While active, the product uses the run's time, randomness and log."""
    replacements = _replacements(rng, Clock(loop.time), log)
    names, defaults = _sites(_product_modules_count())
    for site in names:
        site.names[site.name] = log if type(site.real) is _LOGGER else replacements[id(site.real)]
    for function, given in defaults:
        function.__defaults__ = tuple(replacements.get(id(value), value) for value in given)
    try:
        yield
    finally:
        for site in names:
            site.names[site.name] = site.real
        for function, given in defaults:
            function.__defaults__ = given


class _Site(Struct, frozen=True):
    """A name in a product module that refers to a clock, a random source or a logger."""

    names: dict[str, Any]
    name: str
    real: Any


Defaults = list[tuple[FunctionType, tuple[Any, ...]]]


@lru_cache(maxsize=1)
def _sites(_modules: int) -> tuple[list[_Site], Defaults]:
    """The cache key is the number of modules, so an import since the last call triggers a new search."""
    known = set(_replacements(Random(0), Clock(time.monotonic), Log()))
    modules = _product_modules()
    sites = [
        _Site(names, name, value)
        for names in modules
        for name, value in names.items()
        if type(value) is _LOGGER or id(value) in known
    ]
    makers = [maker for names in modules for maker in _constructors(names)]
    defaults = [(maker, maker.__defaults__ or ()) for maker in makers]
    return sites, [(maker, given) for maker, given in defaults if any(id(value) in known for value in given)]


def _product_modules_count() -> int:
    return sum(name.startswith("holdfast.") for name in sys.modules)


def _product_modules() -> list[dict[str, Any]]:
    found = [(name, module) for name, module in sys.modules.items() if name.startswith("holdfast.")]
    own = "holdfast.lab.simulate"
    return [vars(module) for name, module in sorted(found) if isinstance(module, ModuleType) and own not in name]


def _constructors(names: dict[str, Any]) -> list[FunctionType]:
    """Constructors that may take a clock, with the real one as the default."""
    classes = [one for one in names.values() if isinstance(one, type) and one.__module__ == names.get("__name__")]
    makers = [vars(one).get("__init__") for one in classes]
    return [maker for maker in makers if isinstance(maker, FunctionType)]
