"""Times as people and programs read them: RFC 3339, UTC, with milliseconds."""

from datetime import UTC, datetime
from functools import lru_cache


# All answers of a batch share their time, and formatting it would be the slowest part of an answer.
@lru_cache(maxsize=1024)
def rfc3339(at_ms: int) -> str:
    seconds, millis = divmod(at_ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{millis:03d}Z")


def millis(text: str) -> int:
    """Parses RFC 3339; a time without a zone is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)


def optional_rfc3339(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)
