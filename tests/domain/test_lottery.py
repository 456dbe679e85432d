"""The draw: a permutation, even, the same for everyone who computes it, and tampering shows."""

import json
import re
import shutil
import subprocess
from collections import Counter
from itertools import pairwise, permutations
from math import factorial, sqrt
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from holdfast.domain.room.lottery import Draw, Leavers, Order, beacon_of, digest_of, entry_of, seed_hash
from holdfast.domain.room.lottery_check import Published, Ticket, checks_of

SALE = "drop-1"
SEED = bytes(range(32))
DOCUMENT = Path(__file__).parents[2] / "docs" / "LOTTERY.md"


def entries_of(entrants: int) -> list[str]:
    return [entry_of(SALE, f"buyer-{number}", f"ticket-{number}") for number in range(entrants)]


def draw_of(entrants: int, beacon: str = "") -> Draw:
    return Draw(SALE, SEED, entrants, digest_of(entries_of(entrants)), beacon)


def places(draw: Draw) -> list[int]:
    order = Order(draw)
    return [order.place_of(arrival) for arrival in range(draw.entrants)]


# From `docs/LOTTERY.md`: the places of the first arrivals, by number of entrants and beacon.
VECTORS = [
    (int(n), "" if beacon == "(none)" else beacon, digest, json.loads(f"[{told}]"))
    for n, beacon, digest, told in re.findall(
        r"^\| (\d+) \| ([^|]+) \| `([0-9a-f]{64})` \| ([\d, ]+) \|$", DOCUMENT.read_text(), re.MULTILINE
    )
]


@pytest.mark.parametrize(("entrants", "beacon", "digest", "told"), VECTORS)
def test_the_vectors_in_the_document_hold(entrants: int, beacon: str, digest: str, told: list[int]) -> None:
    draw = draw_of(entrants, beacon)
    assert draw.digest == digest
    assert [Order(draw).place_of(arrival) for arrival in range(len(told))] == told


def test_the_document_has_vectors_and_the_hashes_they_start_from() -> None:
    assert len(VECTORS) >= 6
    assert seed_hash(SEED) in DOCUMENT.read_text()
    assert entry_of(SALE, "buyer-0", "ticket-0") in DOCUMENT.read_text()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_documents_javascript_draws_the_same(tmp_path: Path) -> None:
    [script] = re.findall(r"```js\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    asked = [
        {"saleId": SALE, "seed": SEED.hex(), "entrants": n, "digest": digest, "beacon": beacon, "upto": len(told)}
        for n, beacon, digest, told in VECTORS
    ]
    calls = (
        "(async () => { for (const c of CASES) for (let i = 0; i < c.upto; i++) console.log(await placeOf(i, c)); })()"
    )
    program = tmp_path / "draw.mjs"
    program.write_text(f"{script}\nconst CASES = {json.dumps(asked)};\n{calls}\n")
    ran = subprocess.run(["node", program], capture_output=True, text=True, check=True, timeout=60)
    assert [int(line) for line in ran.stdout.split()] == [place for vector in VECTORS for place in vector[3]]


def test_every_place_is_given_once_in_every_shape_of_rectangle_up_to_2000() -> None:
    """Every number up to 200; then, for each width and height there is, the fewest and the most who need it."""
    fewest_and_most = [n for n in range(201, 2_001) if {shape_of(n - 1), shape_of(n), shape_of(n + 1)} != {shape_of(n)}]
    for entrants in [*range(201), *fewest_and_most]:
        assert sorted(places(Draw(SALE, SEED, entrants, ""))) == list(range(entrants))


def shape_of(entrants: int) -> tuple[int, int]:
    order = Order(Draw(SALE, SEED, entrants, ""))
    return order.width, order.height


@pytest.mark.parametrize("seed", range(6))
def test_every_place_is_given_once_in_long_lines(seed: int) -> None:
    entrants = Random(seed).randrange(2_000, 60_000)
    print(f"seed {seed}: {entrants} entrants")
    given = places(Draw(SALE, seed.to_bytes(32), entrants, ""))
    assert sorted(given) == list(range(entrants))
    assert given != list(range(entrants))


def test_one_of_a_hundred_million_finds_their_place_alone() -> None:
    order = Order(Draw(SALE, SEED, 100_000_007, ""))
    found = {order.place_of(arrival) for arrival in range(50)}
    assert len(found) == 50
    assert max(found) < 100_000_007


def test_late_joiners_follow_in_arrival_order() -> None:
    order = Order(draw_of(100))
    assert [order.place_of(arrival) for arrival in range(100, 140)] == list(range(100, 140))
    assert [Order(Draw(SALE, SEED, 0, "")).place_of(arrival) for arrival in range(3)] == [0, 1, 2]


def excess(observed: Counter[tuple[int, ...]], cells: int, free: int | None = None) -> float:
    """Chi-square against an even spread over `cells`, in standard deviations above what chance gives."""
    freedom = cells - 1 if free is None else free
    expected = observed.total() / cells
    square = sum((count - expected) ** 2 / expected for count in observed.values())
    square += (cells - len(observed)) * expected
    return (square - freedom) / sqrt(2 * freedom)


# Fixed draws, so that the test says the same every time; a fair draw passes 4 deviations all but once in 10,000.
DRAWS = 6_000
LIMIT = 4.0


@pytest.mark.parametrize("entrants", [2, 3, 4, *(pytest.param(many, marks=pytest.mark.slow) for many in (5, 6))])
def test_all_orders_of_a_handful_are_equally_likely(entrants: int) -> None:
    draws = [places(Draw(SALE, seed.to_bytes(32), entrants, "")) for seed in range(DRAWS)]
    orders = Counter(tuple(given) for given in draws)
    assert set(orders) == set(permutations(range(entrants)))
    assert excess(orders, factorial(entrants)) < LIMIT


@pytest.mark.slow
def test_arrival_has_no_influence_on_position() -> None:
    """Each arrival number over all positions, neighbours over all pairs of positions, in seeds 0 to 5,999."""
    entrants = 12
    alone: Counter[tuple[int, ...]] = Counter()
    together: Counter[tuple[int, ...]] = Counter()
    for seed in range(DRAWS):
        given = places(Draw(SALE, seed.to_bytes(32), entrants, ""))
        alone.update(enumerate(given))
        together.update((arrival, *pair) for arrival, pair in enumerate(pairwise(given)))
    assert excess(alone, entrants**2, free=(entrants - 1) ** 2) < LIMIT
    pairs = entrants * (entrants - 1)
    assert excess(together, (entrants - 1) * pairs, free=(entrants - 1) * (pairs - 1)) < LIMIT


def test_early_arrivals_come_no_sooner_in_a_long_line() -> None:
    """The mean place of the first tenth of 1,000, over 200 draws, in standard errors from the middle."""
    entrants, first, draws = 1_000, 100, 200
    means = []
    for seed in range(draws):
        order = Order(Draw(SALE, seed.to_bytes(32), entrants, "x"))
        means.append(sum(order.place_of(arrival) for arrival in range(first)) / first)
    error = sqrt((entrants**2 / 12) * (1 - first / entrants) / (first * draws))
    assert abs(sum(means) / draws - (entrants - 1) / 2) < 3 * error


@pytest.mark.parametrize(
    "other",
    [
        Draw("drop-2", SEED, 1_000, "d"),
        Draw(SALE, bytes(32), 1_000, "d"),
        Draw(SALE, SEED, 1_001, "d"),
        Draw(SALE, SEED, 1_000, "e"),
        Draw(SALE, SEED, 1_000, "d", "beacon"),
    ],
)
def test_whatever_is_published_changes_the_whole_order(other: Draw) -> None:
    same = sum(one == two for one, two in zip(places(Draw(SALE, SEED, 1_000, "d")), places(other), strict=False))
    assert same < 10


def test_those_who_left_are_not_numbered_and_those_behind_them_move_up() -> None:
    gone = [0, 3, 4, 9]
    leavers, listed = Leavers(gone), [arrival for arrival in range(12) if arrival not in gone]
    assert [leavers.number_of(arrival) for arrival in listed] == list(range(8))
    assert [leavers.arrival_of(number) for number in range(8)] == listed


def test_the_documents_beacon_is_computed_so() -> None:
    told = (
        r"digest `(\w{64})` and the public value `(\w+)` give the\s+beacon `(\w{64})`; without a value it is `(\w{64})`"
    )
    [(digest, value, beacon, without)] = re.findall(told, DOCUMENT.read_text())
    assert (beacon_of(digest, value), beacon_of(digest)) == (beacon, without)


def failing(published: Published, ticket: Ticket) -> list[str]:
    return [check.name for check in checks_of(published, ticket) if not check.ok]


def test_tampering_is_found() -> None:
    entries = entries_of(50)
    draw = draw_of(50, beacon_of(digest_of(entries), "drand 4321: 9f3c"))
    named = {"beacon_source": "drand 4321", "beacon_value": "drand 4321: 9f3c"}
    honest = Published(draw, seed_hash(SEED), entries, **named)
    position = Order(draw).place_of(7) + 1
    ticket = Ticket(7, position, SALE, "buyer-7", "ticket-7", seed_hash(SEED), "drand 4321")
    names = [check.name for check in checks_of(honest, ticket)]
    assert names == ["seed", "commitment", "beacon_source", "beacon", "sale", "entrants", "digest", "entry", "position"]
    assert failing(honest, ticket) == []
    assert failing(honest, Ticket(7, position + 1)) == ["position"]
    # Another seed, with its own hash: the ticket remembers the first.
    other = Draw(SALE, bytes(32), 50, draw.digest, draw.beacon)
    assert failing(Published(other, seed_hash(SEED), **named), ticket) == ["seed", "position"]
    assert failing(Published(other, seed_hash(bytes(32)), **named), ticket) == ["commitment", "position"]
    # Another public value than the one that was named, or another value of it, or one that was left out.
    assert failing(replace(honest, beacon_source="a die of ours"), ticket) == ["beacon_source"]
    assert failing(replace(honest, beacon_value="another"), ticket) == ["beacon"]
    assert failing(replace(honest, beacon_value=None), ticket) == ["beacon"]
    # Drawn without the value that was named.
    plain = draw_of(50)
    without = replace(ticket, position=Order(plain).place_of(7) + 1)
    assert failing(replace(honest, draw=plain), without) == ["beacon"]
    # Two people changed places on the list after it was closed; or somebody was added; or replaced me.
    swapped = [*entries[:7], entries[8], entries[7], *entries[9:]]
    assert failing(replace(honest, entries=swapped), ticket) == ["digest", "entry"]
    assert failing(replace(honest, entries=[*entries, entries[0]]), ticket) == ["entrants", "digest"]
    stranger = replace(ticket, buyer_id="buyer-9")
    assert failing(honest, stranger) == ["entry"]
