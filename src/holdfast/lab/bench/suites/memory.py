"""Checks that the server's memory stays flat over many attempts."""

from msgspec.structs import replace

from holdfast.domain.stock.limits import MAX_TOTAL_UNITS
from holdfast.lab.bench.measure.progress import Progress
from holdfast.lab.bench.measure.report import Memory
from holdfast.lab.load import driver
from holdfast.lab.load.servers import Holdfast

# An estimate, used only by the progress line.
SOAK_PER_SECOND = 8000
_TENTHS = 10


def soak(server: Holdfast, attempts: int, connections: int, progress: Progress) -> Memory:
    """An empty pool refuses half of the attempts; the other half is accepted."""
    each = max(1, attempts // (2 * _TENTHS))
    samples = [server.process.memory_mb()]
    for tenth in range(1, _TENTHS + 1):
        with progress.step(
            f"memory, attempts {tenth * 2 * each:,} of {_TENTHS * 2 * each:,}", 2 * each / SOAK_PER_SECOND
        ):
            for units in (MAX_TOTAL_UNITS, 0):
                checked = server.reserve(units=units)
                checked.verify("memory", driver.drive(replace(checked.load, connections=connections, requests=each)))
        samples.append(server.process.memory_mb())
    return Memory(samples[0], samples[-1], _TENTHS * 2 * each, samples)
