"""Merkle trees over ordered lists, built as Certificate Transparency does (RFC 6962, section 2).

The root fixes every entry, their order and their number. A path of about log2(n) hashes proves that an entry is at a
position without disclosing any other. Appending keeps every complete part of the tree, so the largest of those
(the peaks, one for each bit of the size) are enough to continue and to compute the root.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

HASH_SIZE = 32


def leaf_hash(content: bytes) -> bytes:
    return sha256(b"\x00" + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The prefix keeps a node from being taken for a leaf."""
    return sha256(b"\x01" + left + right).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    level = leaves
    while len(level) > 1:
        level = _parents(level)
    return level[0] if level else sha256().digest()


def path_to(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes that lead from a leaf to the root."""
    path, level = [], leaves
    while len(level) > 1:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        level, index = _parents(level), index // 2
    return path


def root_by_path(leaf: bytes, index: int, size: int, path: Iterable[bytes]) -> bytes | None:
    """The root of a tree of this size that has the leaf at this index; None if the path does not fit."""
    if not 0 <= index < size:
        return None
    found, last, rest = leaf, size - 1, list(path)[::-1]
    while last:
        if index % 2 or index < last:
            if not rest:
                return None
            sibling = rest.pop()
            found = node_hash(sibling, found) if index % 2 else node_hash(found, sibling)
        index, last = index // 2, last // 2
    return None if rest else found


def peak_sizes(size: int) -> list[int]:
    """The sizes at which the peaks of a tree of this size were completed."""
    ends = []
    while size:
        ends.append(size)
        size &= size - 1
    return ends[::-1]


class Frontier:
    """A tree that is only appended to."""

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        self.size = size
        self._peaks = list(peaks)

    def append(self, leaf: bytes) -> bytes:
        """The peak that the leaf completes."""
        peak, size = leaf, self.size
        while size & 1:
            peak, size = node_hash(self._peaks.pop(), peak), size >> 1
        self._peaks.append(peak)
        self.size += 1
        return peak

    @property
    def root(self) -> bytes:
        if not self._peaks:
            return root_of([])
        root = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            root = node_hash(peak, root)
        return root


def _parents(level: Sequence[bytes]) -> list[bytes]:
    """A last one without a sibling moves up as it is."""
    pairs = zip(level[::2], level[1::2], strict=False)
    parents = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
    return parents if len(level) % 2 == 0 else [*parents, level[-1]]
