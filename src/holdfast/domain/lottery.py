"""Who comes first, drawn so that everyone can check it. docs/LOTTERY.md has the same in words, with test vectors.

The model. Before anyone joins, the hash of a random seed is published. Everyone who joins before opening gets the next
arrival number, from 0. At opening the list is closed; its length, its digest and the seed are published. All of them
(and a public beacon, if one was announced) make the key of a permutation of the arrival numbers, and that is the order.

The permutation is a Feistel network over a rectangle of a by b cells, a = ⌈√n⌉ and b = ⌈n ÷ a⌉, which has hardly more
cells than there are people; whoever lands on a cell beyond the last is sent on until they land within. So one person
recomputes their own place with two dozen hashes and without the list, and everyone's places take only about 24 · √n
hashes in all: nothing has to be shuffled or written at the moment of opening, which is the busiest there is.

The invariants: places 0 to n-1 are each given once; what an arrival number becomes cannot be known without the seed;
the seed cannot be changed once its hash is out; who is on the list cannot be changed once its digest is out. Whoever
arrives after closing keeps their arrival number as their place.

When it fails. An operator who knows the seed and adds made-up people last could try names until the draw suits them.
Nothing computed from the operator's own data can prevent this; a beacon that nobody knows before closing does.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha256
from math import isqrt

from msgspec import Struct

SEED_BYTES = 32
# Two rounds make each place equally likely for each person. All orders of a handful of people are equally likely only
# after many more: with 12 a chi-square test over 60,000 draws still tells six people from a fair draw, with 18 not.
ROUNDS = 24
_LABEL = "holdfast-lottery-1"
# 48 bits are exact in JavaScript's numbers too, and make a remainder's bias smaller than one in 2^28.
_DRAWN_BYTES = 6


def seed_hash(seed: bytes) -> str:
    """What is published before anyone joins: plain SHA-256, so that any tool can check it."""
    return sha256(seed).hexdigest()


def entry_of(sale_id: str, buyer_id: str, ticket_id: str) -> str:
    """A line of the published list: binds an arrival number to a buyer, and tells nothing without the ticket's id."""
    return sha256(f"{sale_id}\n{buyer_id}\n{ticket_id}".encode()).hexdigest()


class ListDigest:
    """The digest of the closed list, as `sha256sum` says it of a file with one entry per line."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, entries: Iterable[str]) -> "ListDigest":
        for entry in entries:
            self._hash.update(f"{entry}\n".encode())
        return self

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def digest_of(entries: Iterable[str]) -> str:
    return ListDigest().add(entries).hexdigest()


class Draw(Struct, frozen=True):
    """All that the order depends on. Everything in it is public once the sale is open."""

    sale_id: str
    seed: bytes
    entrants: int
    digest: str
    beacon: str = ""

    @property
    def key(self) -> bytes:
        facts = [_LABEL, self.sale_id, str(self.entrants), self.digest, self.beacon]
        return hmac.digest(self.seed, "\n".join(facts).encode(), "sha256")


class Order:
    """The places of a draw. Keeps the hashes it has made, so that asking for everyone's place costs little."""

    def __init__(self, draw: Draw) -> None:
        self.entrants = draw.entrants
        self.width = isqrt(draw.entrants - 1) + 1 if draw.entrants else 1
        self.height = -(-draw.entrants // self.width)
        self._key = draw.key
        self._drawn: dict[tuple[int, int], int] = {}

    def place_of(self, arrival: int) -> int:
        """From 0, the first to be served. Late joiners follow in arrival order."""
        if arrival >= self.entrants:
            return arrival
        place = self._shuffled(arrival)
        while place >= self.entrants:
            place = self._shuffled(place)
        return place

    def _shuffled(self, cell: int) -> int:
        row, column = divmod(cell, self.width)
        for number in range(0, ROUNDS, 2):
            column = (column + self._draw(number, row)) % self.width
            row = (row + self._draw(number + 1, column)) % self.height
        return row * self.width + column

    def _draw(self, number: int, line: int) -> int:
        drawn = self._drawn.get((number, line))
        if drawn is None:
            code = hmac.digest(self._key, f"{number}:{line}".encode(), "sha256")
            drawn = self._drawn[number, line] = int.from_bytes(code[:_DRAWN_BYTES])
        return drawn
