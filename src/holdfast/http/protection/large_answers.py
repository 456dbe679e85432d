"""Documents of hundreds of kilobytes: compressed where the client takes that, and rate-limited otherwise.

The server keeps a copy of a response until its client has read it, and does not report when. A client that reads
nothing is cut off after a while (server/granian_server.py), but until then thousands of them could hold a copy each.
So the bytes of large responses are limited for all clients together.
"""

from time import monotonic

from holdfast.http.contract import problems
from holdfast.http.contract.problem import Problem
from holdfast.runtime.token_bucket import Policy, take

LARGE_BYTES = 64 * 1024
# In KiB: 8 MiB at once, 4 MiB per second.
BUDGET = Policy("large answers", burst=8 * 1024, every_ms=1000 / (4 * 1024))


class LargeAnswers:
    def __init__(self) -> None:
        self._full_at = 0.0

    def spend(self, size: int) -> None:
        """Raises a problem if too much was sent a moment ago."""
        if size <= LARGE_BYTES:
            return
        taken = take(BUDGET, self._full_at, int(monotonic() * 1000), tokens=size // 1024)
        if not taken.is_allowed:
            raise Problem(problems.BUSY, "Too many large documents at once. Send `Accept-Encoding: gzip`, or retry.")
        self._full_at = taken.full_at


# One for the process: the memory is the process's, too.
large_answers = LargeAnswers()
