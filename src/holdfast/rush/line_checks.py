"""Whether a line was served in its order."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from holdfast.domain.lottery import Draw, Order, seed_hash
from holdfast.rush.books import Books, SaleBooks
from holdfast.rush.fairness import Stood, overtakings
from holdfast.rush.testimony import Standing, Testimony
from holdfast.rush.watch import Sample


def line_kept(testimonies: Sequence[Testimony], books: Books, samples: Sequence[Sample]) -> Iterator[str]:
    for product, sale in enumerate(books.sales):
        if sale.line is None:
            continue
        places = [(one.buyer_id, place) for one in testimonies if one.product == product for place in one.places]
        yield from _one_place_each(places)
        yield from _called_in_order(sale, places, samples)
        if sale.offer.room == "lottery":
            yield from _as_drawn(sale, places)
        yield from _in_order_of_arrival(places)


def _one_place_each(places: Sequence[tuple[str, Standing]]) -> Iterator[str]:
    owners: dict[int, str] = {}
    for buyer_id, place in places:
        if owners.setdefault(place.arrival, buyer_id) != buyer_id:
            yield f"{buyer_id} and {owners[place.arrival]} were given the same place"


def _in_order_of_arrival(places: Sequence[tuple[str, Standing]]) -> Iterator[str]:
    """By the numbers that were given out; a lottery's places are drawn from them."""
    line = (Stood(who, place.arrival, place.asked_at, place.answered_at) for who, place in places)
    yield from (f"{behind} was there before {ahead} came, and stands behind" for behind, ahead in overtakings(line))


def _called_in_order(
    sale: SaleBooks, places: Sequence[tuple[str, Standing]], samples: Sequence[Sample]
) -> Iterator[str]:
    """The line only ever moves on. So if it had not come so far when we looked afterwards, it had not come before."""
    assert sale.line is not None
    sale_id, asked = sale.offer.sale_id, [sample.asked_at for sample in samples]
    for who, place in places:
        if not place.admitted_at or place.position is None:
            continue
        later = bisect_left(asked, place.admitted_at)
        serving = samples[later].serving.get(sale_id, 0) if later < len(samples) else sale.line.serving
        if place.position > serving:
            yield f"{who} at {place.position} was let in when {serving} had been called"


def _as_drawn(sale: SaleBooks, places: Sequence[tuple[str, Standing]]) -> Iterator[str]:
    assert sale.line is not None
    lottery = sale.line.lottery
    if lottery.seed is None or lottery.entrants is None or lottery.digest is None:
        yield f"the lottery of {sale.offer.sale_id} was never drawn"
        return
    if seed_hash(bytes.fromhex(lottery.seed)) != lottery.seed_hash:
        yield f"the seed of {sale.offer.sale_id} is not the one whose hash was published"
    order = Order(Draw(sale.offer.sale_id, bytes.fromhex(lottery.seed), lottery.entrants, lottery.digest))
    for who, place in places:
        if place.position is not None and place.position != order.place_of(place.arrival) + 1:
            yield f"{who} drew {order.place_of(place.arrival) + 1} and was told {place.position}"
