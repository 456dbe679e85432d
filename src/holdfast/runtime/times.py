"""Times as people and programs read them: RFC 3339, UTC, with milliseconds."""

from datetime import UTC, datetime
from functools import lru_cache


# All answers of a batch share their time, and formatting it would be the slowest part of an answer.
@lru_cache(maxsize=1024)
def rfc3339(at_ms: int) -> str:
    seconds, millis = divmod(at_ms, 1000)
    return f"{_second(seconds)}.{millis:03d}Z"


# Batches come many times a second, and their answers name times of the same few.
@lru_cache(maxsize=1024)
def _second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def millis(text: str) -> int:
    """Parses RFC 3339; a time without a zone is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)


def optional_rfc3339(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)
