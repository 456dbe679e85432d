"""Whether the server's memory stays flat: many attempts, and a look at every tenth of them."""

from msgspec.structs import replace

from holdfast.bench import driver
from holdfast.bench.contenders import Holdfast
from holdfast.bench.progress import Progress
from holdfast.bench.report import Memory
from holdfast.domain.pool import MAX_TOTAL_UNITS

# An estimate, for the progress line only.
SOAK_PER_SECOND = 8000
_TENTHS = 10


def soak(server: Holdfast, attempts: int, connections: int, progress: Progress) -> Memory:
    """Half of the attempts find nothing left, the other half are accepted."""
    each = max(1, attempts // (2 * _TENTHS))
    samples = [server.process.memory_mb()]
    for tenth in range(1, _TENTHS + 1):
        with progress.step(
            f"memory, attempts {tenth * 2 * each:,} of {_TENTHS * 2 * each:,}", 2 * each / SOAK_PER_SECOND
        ):
            for units in (MAX_TOTAL_UNITS, 0):
                shot = server.reserve(units=units)
                shot.verify("memory", driver.drive(replace(shot.load, connections=connections, requests=each)))
        samples.append(server.process.memory_mb())
    return Memory(samples[0], samples[-1], _TENTHS * 2 * each, samples)
