"""Merkle trees: a root fixes every entry, and a path proves one of them."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.chain.merkle import (
    Frontier,
    leaf_hash,
    node_hash,
    path_to,
    peak_sizes,
    root_by_path,
    root_of,
)

leaves = st.lists(st.binary(max_size=3), max_size=70).map(lambda contents: [leaf_hash(one) for one in contents])
some_leaves = st.lists(st.binary(max_size=3), min_size=1, max_size=70).map(
    lambda contents: [leaf_hash(one) for one in contents]
)


def by_definition(hashes: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    if len(hashes) < 2:
        return hashes[0] if hashes else sha256().digest()
    left = 1
    while left * 2 < len(hashes):
        left *= 2
    return node_hash(by_definition(hashes[:left]), by_definition(hashes[left:]))


@given(leaves)
def test_the_root_is_the_one_of_the_standard(hashes: list[bytes]) -> None:
    assert root_of(hashes) == by_definition(hashes)


@given(leaves)
def test_appending_one_by_one_leads_to_the_same_root(hashes: list[bytes]) -> None:
    grown = Frontier()
    for number, leaf in enumerate(hashes, start=1):
        grown.append(leaf)
        assert grown.root == root_of(hashes[:number])


@given(leaves, leaves)
def test_a_tree_continues_from_the_peaks_that_were_stored(first: list[bytes], rest: list[bytes]) -> None:
    grown = Frontier()
    peaks = [grown.append(leaf) for leaf in first]
    continued = Frontier(len(first), [peaks[size - 1] for size in peak_sizes(len(first))])
    for leaf in rest:
        continued.append(leaf)
    assert continued.root == root_of(first + rest)


@given(some_leaves, st.data())
def test_a_path_proves_one_entry_at_one_position_of_one_tree(hashes: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(hashes) - 1))
    root, path = root_of(hashes), path_to(hashes, index)
    assert root_by_path(hashes[index], index, len(hashes), path) == root
    assert root_by_path(leaf_hash(b"another"), index, len(hashes), path) != root
    assert root_by_path(hashes[index], len(hashes), len(hashes), path) is None
    assert root_by_path(hashes[index], index, len(hashes), [*path, root]) is None
    if path:
        assert root_by_path(hashes[index], index, len(hashes), path[1:]) != root


@given(st.lists(st.binary(min_size=1, max_size=3), min_size=2, max_size=40, unique=True), st.data())
def test_no_change_order_or_omission_has_the_same_root(contents: list[bytes], data: st.DataObject) -> None:
    hashes = [leaf_hash(one) for one in contents]
    index = data.draw(st.integers(0, len(hashes) - 1))
    changed = [*hashes[:index], leaf_hash(b""), *hashes[index + 1 :]]
    omitted = hashes[:index] + hashes[index + 1 :]
    reordered = hashes[index:] + hashes[:index] if index else hashes[::-1]
    assert root_of(hashes) not in {root_of(changed), root_of(omitted), root_of(reordered), root_of([*hashes, *hashes])}
