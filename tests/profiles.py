"""How many examples Hypothesis looks at, and where chance comes from.

Every run looks at the same examples: few in the profile `daily`, many in `all`, which `make test-all` chooses. Tests
that take a seed have the same one in every daily run, and another in every run of `make test-all`; it is printed.
`make fuzz` sends as many requests as it is told to each engine, one in ten made by Schemathesis, which is slow.
"""

import os
import random
from zlib import crc32

from hypothesis import HealthCheck, settings

_FEW = "daily"
_MANY = "all"
_FUZZ = "fuzz"
# How many requests `make fuzz` sends to each engine, and which ones.
FUZZ_REQUESTS, FUZZ_SEED = (int(os.environ.get(f"HOLDFAST_TEST_FUZZ_{name}", "0")) for name in ("REQUESTS", "SEED"))


def _register(name: str, *, max_examples: int, derandomize: bool = True) -> None:
    settings.register_profile(
        name,
        # The same examples every time: a run judges a change, not chance.
        derandomize=derandomize,
        database=None,
        max_examples=max_examples,
        deadline=None,
        print_blob=True,
        # They judge how examples are made, which depends on the machine, and not what is tested.
        suppress_health_check=list(HealthCheck),
    )


_register(_FEW, max_examples=25)
_register(_MANY, max_examples=200)
_register(_FUZZ, max_examples=200, derandomize=False)
settings.load_profile(_FEW)


def examples(daily: int, *, all_: int) -> settings:
    """For a property whose examples are dearer or cheaper than most."""
    return settings(max_examples=daily if _is_daily() else all_)


def fuzz_examples(daily: int, *, all_: int, requests: int) -> settings:
    """For properties whose examples send so many requests together."""
    if settings.get_current_profile_name() == _FUZZ:
        return settings(max_examples=max(FUZZ_REQUESTS * 9 // 10 // requests, 1))
    return examples(daily, all_=all_)


def seed_of(nodeid: str) -> int:
    return crc32(nodeid.encode()) if _is_daily() else random.randrange(1_000_000)


def _is_daily() -> bool:
    return settings.get_current_profile_name() == _FEW
