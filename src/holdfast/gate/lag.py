"""How far background work has fallen behind: the number of waiting items, and the age of the oldest."""

from msgspec import Struct


class Lag(Struct, frozen=True):
    items: int = 0
    seconds: float = 0.0

    @classmethod
    def since(cls, items: int, oldest_at: int | None, now: int) -> "Lag":
        """From the time of the oldest item, in milliseconds like `now`."""
        return cls(items, 0.0 if oldest_at is None or not items else max(now - oldest_at, 0) / 1000)

    def beside(self, other: "Lag") -> "Lag":
        """The sum of two kinds of work that form one backlog."""
        return Lag(self.items + other.items, max(self.seconds, other.seconds))
