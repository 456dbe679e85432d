"""The lottery: a draw of the order that anyone can verify. docs/LOTTERY.md describes it with test vectors.

The verification page computes the same in the browser (`http/web/static/lottery/draw.mjs`, tested against this file),
so a change here is a change there and in docs/LOTTERY.md.

The model. The hash of a random seed is published before anyone joins. At opening the list of those in line is closed,
in order of arrival and without those who left; its length and its digest are published. Then the beacon is fixed: the
hash of that digest and, if one was named beforehand, of a public value that nobody knew before. Seed, length, digest
and beacon form the key of a permutation of the lines of the list, which are numbered from 0. The permutation is the
order. The seed is sealed until then, so that a reader of the database cannot try out what joining would bring.

The permutation is a Feistel network over a rectangle of a by b cells, a = ⌈√n⌉ and b = ⌈n ÷ a⌉. The rectangle has few
more cells than there are people; a result beyond the last person is permuted again until it is in range (cycle
walking). One person can recompute their own place with two dozen hashes and without the list. All places together take
about 24 · √n hashes. Nothing is shuffled or written at opening, which is the busiest moment.

The invariants: each place from 0 to n-1 is assigned once; the place of an entry cannot be predicted without
the seed; the seed cannot change after its hash is published; the list cannot change after its digest is published. A
person who joins after closing follows behind the list, in order of arrival.

When it fails. An operator who opens the seal can add fake entrants last and try names until the result suits them.
Nothing computed from the operator's own data can prevent this. A public value that is unknown before closing does.
"""

import hmac
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from hashlib import sha256
from math import isqrt

from msgspec import Struct

SEED_BYTES = 32
# Two rounds make each place equally likely for each person. Making all orders of a few people equally likely takes many
# more: a chi-square test over 60,000 draws of six people still detects a bias with 12 rounds, but not with 18.
ROUNDS = 24
_LABEL = "holdfast-lottery-1"
# 48 bits are exact in JavaScript numbers too, and keep the modulo bias below one in 2^28.
_DRAWN_BYTES = 6


def seed_hash(seed: bytes) -> str:
    """The commitment published before anyone joins. Plain SHA-256, so that any tool can verify it."""
    return sha256(seed).hexdigest()


def entry_of(sale_id: str, buyer_id: str, ticket_id: str) -> str:
    """A line of the published list. It binds an arrival number to a buyer and reveals nothing without the ticket ID."""
    return sha256(f"{sale_id}\n{buyer_id}\n{ticket_id}".encode()).hexdigest()


class ListDigest:
    """The digest of the closed list: the `sha256sum` of a file with one entry per line."""

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


def beacon_of(digest: str, public_value: str = "") -> str:
    """What is mixed into the draw after the list is closed."""
    return sha256(f"{digest}\n{public_value}".encode()).hexdigest()


class Leavers:
    """The arrival numbers of those who left before the list was closed. The list does not have them, so everybody
    behind them moves up: the number of an entry is its line in the list, counted from 0."""

    def __init__(self, arrivals: Sequence[int]) -> None:
        self._arrivals = arrivals

    def number_of(self, arrival: int) -> int:
        return arrival - bisect_left(self._arrivals, arrival)

    def arrival_of(self, number: int) -> int:
        arrival = number
        while (further := number + bisect_right(self._arrivals, arrival)) != arrival:
            arrival = further
        return arrival


NO_LEAVERS = Leavers(())


class Draw(Struct, frozen=True):
    """Every input of the order. All of it is public once the sale is open."""

    sale_id: str
    seed: bytes
    entrants: int
    digest: str
    # Empty in draws of earlier versions.
    beacon: str = ""

    @property
    def key(self) -> bytes:
        facts = [_LABEL, self.sale_id, str(self.entrants), self.digest, self.beacon]
        return hmac.digest(self.seed, "\n".join(facts).encode(), "sha256")


class Order:
    """The places of a draw. Caches its hashes, so that computing every place is cheap."""

    def __init__(self, draw: Draw) -> None:
        self.entrants = draw.entrants
        self.width = isqrt(draw.entrants - 1) + 1 if draw.entrants else 1
        self.height = -(-draw.entrants // self.width)
        self._key = draw.key
        self._drawn: dict[tuple[int, int], int] = {}

    def place_of(self, number: int) -> int:
        """The place of an entry, counted from 0, the first to be served. Late joiners follow in arrival order."""
        if number >= self.entrants:
            return number
        place = self._shuffled(number)
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
