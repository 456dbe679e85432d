"""Limits how many items are started per second."""

import asyncio
from time import monotonic


class Throttle:
    def __init__(self, rate_per_second: float) -> None:
        self._rate = rate_per_second
        # The burst after a pause: enough for short peaks, too little to overload a provider.
        self._burst = max(rate_per_second / 4, 1.0)
        self._left = self._burst
        self._at = monotonic()

    async def spend(self, count: int) -> None:
        """Wait until this many may start."""
        now = monotonic()
        self._left = min(self._left + (now - self._at) * self._rate, self._burst) - count
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / self._rate)
