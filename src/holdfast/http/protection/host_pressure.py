"""Whether CPU or memory is nearly used up, so that optional reads are turned off.

Sampled once a second, with CPU use averaged over a few seconds. On at the limit, off ten percent below it, so that
turning something off does not immediately turn it on again.
"""

from time import monotonic

from holdfast.http.protection.host_load import HostLoad, Usage
from holdfast.runtime import metrics

INTERVAL_S = 1.0
RELIEF = 0.10
# Of the new value in the average: after three seconds the old ones count for an eighth.
NEWEST_PART = 0.5


class HostPressure:
    def __init__(self, limit_percent: int, load: HostLoad | None = None) -> None:
        """Never high with a limit of 0."""
        self._limit = limit_percent / 100
        self._load = load or HostLoad()
        self._sampled_at = float("-inf")
        self._cpu = 0.0
        self.is_high = False

    def tend(self) -> None:
        """To be called a few times a second."""
        now = monotonic()
        if self._limit and now - self._sampled_at >= INTERVAL_S:
            self._sampled_at = now
            self.note(self._load.sample(now))

    def note(self, usage: Usage) -> None:
        self._cpu += (usage.cpu - self._cpu) * NEWEST_PART
        highest = max(self._cpu, usage.memory)
        self.is_high = highest >= (self._limit - RELIEF if self.is_high else self._limit)
        metrics.HOST_USAGE.labels("cpu").set(self._cpu)
        metrics.HOST_USAGE.labels("memory").set(usage.memory)
