"""The events of a run, in order. Two runs of the same seed have byte-identical traces."""

from hashlib import blake2b

from holdfast.lab.simulate.loop import HOST, SimulatedLoop


class Trace:
    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._entries: list[tuple[float, str, str, tuple[object, ...]]] = []

    def note(self, what: str, *facts: object) -> None:
        if not self._loop.is_ending:
            self._entries.append((self._loop.now_s, HOST.get().name, what, facts))

    @property
    def lines(self) -> list[str]:
        return [_line(*entry) for entry in self._entries]

    @property
    def digest(self) -> str:
        return blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()


def _line(at: float, host: str, what: str, facts: tuple[object, ...]) -> str:
    return f"{at:10.4f} {host:<10} {what} {' '.join(map(str, facts))}".rstrip()
