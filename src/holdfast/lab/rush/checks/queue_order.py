"""Checks that a queue was served in order."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from holdfast.domain.room.lottery import Draw, Order, seed_hash
from holdfast.lab.rush.buyers.record import BuyerRecord, QueuePlace
from holdfast.lab.rush.checks.fairness import QueueEntry, overtaken
from holdfast.lab.rush.server.ledger_snapshot import LedgerSnapshot, SaleSnapshot
from holdfast.lab.rush.server.stock_monitor import Sample


def check_queue_order(
    records: Sequence[BuyerRecord], ledger: LedgerSnapshot, samples: Sequence[Sample]
) -> Iterator[str]:
    for product, sale in enumerate(ledger.sales):
        if sale.queue is None:
            continue
        places = [(one.buyer_id, place) for one in records if one.product == product for place in one.places]
        yield from _one_place_each(places)
        yield from _called_in_order(sale, places, samples)
        if sale.offer.room == "lottery":
            yield from _as_drawn(sale, places)
        yield from _in_order_of_arrival(places)


def _one_place_each(places: Sequence[tuple[str, QueuePlace]]) -> Iterator[str]:
    owners: dict[int, str] = {}
    for buyer_id, place in places:
        if owners.setdefault(place.arrival, buyer_id) != buyer_id:
            yield f"{buyer_id} and {owners[place.arrival]} were given the same place"


def _in_order_of_arrival(places: Sequence[tuple[str, QueuePlace]]) -> Iterator[str]:
    """Checks arrival numbers; a lottery draws its places from these."""
    line = (QueueEntry(who, place.arrival, place.asked_at, place.answered_at) for who, place in places)
    yield from (
        f"{behind} had a place before {ahead} asked for one, and is behind" for behind, ahead in overtaken(line)
    )


def _called_in_order(
    sale: SaleSnapshot, places: Sequence[tuple[str, QueuePlace]], samples: Sequence[Sample]
) -> Iterator[str]:
    """The queue only advances: a position that a later sample shows as not yet called was not called before."""
    assert sale.queue is not None
    sale_id, asked = sale.offer.sale_id, [sample.asked_at for sample in samples]
    for who, place in places:
        if not place.admitted_at or place.position is None:
            continue
        later = bisect_left(asked, place.admitted_at)
        serving = samples[later].serving.get(sale_id, 0) if later < len(samples) else sale.queue.serving
        if place.position > serving:
            yield f"{who} at {place.position} was admitted when only {serving} had been called"


def _as_drawn(sale: SaleSnapshot, places: Sequence[tuple[str, QueuePlace]]) -> Iterator[str]:
    assert sale.queue is not None
    lottery = sale.queue.lottery
    if lottery.seed is None or lottery.entrants is None or lottery.digest is None:
        yield f"the lottery of {sale.offer.sale_id} was never drawn"
        return
    if seed_hash(bytes.fromhex(lottery.seed)) != lottery.seed_hash:
        yield f"the seed of {sale.offer.sale_id} is not the one whose hash was published"
    seed, beacon = bytes.fromhex(lottery.seed), lottery.beacon or ""
    order = Order(Draw(sale.offer.sale_id, seed, lottery.entrants, lottery.digest, beacon))
    for who, place in places:
        drawn = order.place_of(place.arrival if place.entry is None else place.entry) + 1
        if place.position is not None and place.position != drawn:
            yield f"{who} drew {drawn} but was given {place.position}"
