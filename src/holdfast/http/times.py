"""Times as people and programs read them: RFC 3339, UTC, with milliseconds."""

from datetime import UTC, datetime
from functools import lru_cache


# All answers of a batch share their moment, and formatting one would be the slowest part of an answer.
@lru_cache(maxsize=1024)
def rfc3339(at_ms: int) -> str:
    seconds, millis = divmod(at_ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{millis:03d}Z")


def millis(text: str) -> int:
    """The moment of an RFC 3339 text; without a zone it is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
