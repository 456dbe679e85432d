"""Checks that no unit stays free while people are queuing and nobody is called for it.

The pace calls the next person within two seconds, until four are inside for each free unit (`domain/room/pace.py`). The
advancer needs a moment, and samples are taken four times a second on a busy machine, so only a longer wait is a
finding. Samples do not show whether a called person may still come, so everybody counts until they have bought.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from holdfast.domain.room.pace import OFFERED_MAX
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.server.ledger_snapshot import LedgerSnapshot
from holdfast.lab.rush.server.stock_monitor import Sample

WAIT_MAX_S = 4.0
# During a longer gap between samples, the server may have called somebody.
GAP_MAX_S = 1.0


def check_free_units(
    records: Sequence[BuyerRecord], ledger: LedgerSnapshot, samples: Sequence[Sample]
) -> Iterator[str]:
    """Checks rushes with one product only, because samples add up all products."""
    if len(ledger.sales) != 1 or ledger.sales[0].queue is None:
        return
    opens_at = ledger.sales[0].offer.opens_at
    # The first sample may come after the opening; the time before it is unknown.
    free_since = samples[0].asked_at if samples else 0.0
    for before, after in pairwise(samples):
        is_free = after.available > 0 and after.waiting > 0 and before.asked_at >= opens_at
        is_seen = after.asked_at - before.asked_at <= GAP_MAX_S
        waited_s = after.asked_at - free_since
        if not is_free or not is_seen or after.serving != before.serving:
            free_since = after.asked_at
        elif waited_s > WAIT_MAX_S:
            free_since = after.asked_at
            if not _are_offered(records, after):
                yield f"{after.available} units were free for {waited_s:.1f} s with {after.waiting} people in line"


def _are_offered(records: Sequence[BuyerRecord], sample: Sample) -> bool:
    [serving] = sample.serving.values()
    inside = sum(_is_inside(record, serving, sample.asked_at) for record in records)
    return inside >= OFFERED_MAX * sample.available


def _is_inside(record: BuyerRecord, serving: int, at: float) -> bool:
    is_called = any(place.position is not None and place.position <= serving for place in record.places)
    return is_called and not any(grant.answered_at <= at for grant in record.grants)
