"""Answers that show what the domain has under the same names, so that each field is written once."""

from functools import cache
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.runtime.times import optional_rfc3339

T = TypeVar("T", bound=Struct)


def copy_fields(kind: type[T], thing: object, **others: Any) -> T:
    """The fields that `thing` has, its times as RFC 3339, and the `others`, which it lacks or has differently.

    Not for the hot path: an answer that is made thousands of times a second names its fields itself.
    """
    plain, times = _names(kind)
    copied = {name: getattr(thing, name) for name in plain if name not in others}
    moments = {name: optional_rfc3339(getattr(thing, name)) for name in times if name not in others}
    return kind(**copied, **moments, **others)


@cache
def _names(kind: type[Struct]) -> tuple[list[str], list[str]]:
    """A time is called `at` or something `_at`."""
    is_time = {name: name == "at" or name.endswith("_at") for name in kind.__struct_fields__}
    return [name for name in is_time if not is_time[name]], [name for name in is_time if is_time[name]]
