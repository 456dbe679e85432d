"""Where the crowd was answered, and whether the edge's account of it agrees with the server's.

The edge marks each response with its source, and buyers count these. The server behind it counts the requests it
answered, unaware of the edge. The two may differ only by responses that buyers did not wait for, and by the edge's own
requests: it reads the state of a sale at most once per request that it might refuse, and normally once per second.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from holdfast.lab.rush.buyers.actions import Step
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.buyers.source import Source
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.rush.checks.finding import Finding, finding

_MAY_REFUSE = (Step.JOIN, Step.LEAVE, Step.ADMISSION, Step.PURCHASE)
# Cached responses that are refreshed in the background, and published keys.
_LOOKUPS_PER_SECOND = 2
_LOOKUPS_AT_LEAST = 20
# One of the monitor's reads may be in flight when the rush ends.
_UNCOUNTED = 1
_MEANS = "The server answered as many requests as the edge says it sent there, and those of the edge itself."


class OriginCount(Struct, frozen=True):
    """The requests that the server behind the edge answered during the rush, without the operator's."""

    answered: int
    seconds: float
    sales: int


class Answers(Struct, frozen=True):
    """Buyers by the source of the response that ended their visit, and requests by the source of their response."""

    buyers: dict[str, int]
    reached_origin: int
    requests: dict[str, int]
    by_step: dict[str, dict[str, int]]


def answers_of(records: Iterable[BuyerRecord], tally: Tally) -> Answers:
    buyers: Counter[str] = Counter()
    reached = 0
    for record in records:
        buyers[record.answered_by] += 1
        reached += record.reached_origin
    requests: Counter[str] = Counter()
    by_step: dict[str, dict[str, int]] = {}
    for name, count in sorted(tally.sources.items()):
        step, source, _ = name.split(" ")
        requests[source] += count
        found = by_step.setdefault(step, {each.value: 0 for each in Source})
        found[source] += count
    return Answers(_all(buyers), reached, _all(requests), by_step)


def check_origin(answers: Answers, tally: Tally, origin: OriginCount) -> Finding:
    return finding("edge_account_true", _MEANS, sum(answers.requests.values()), _differences(answers, tally, origin))


def _differences(answers: Answers, tally: Tally, origin: OriginCount) -> Iterator[str]:
    least = answers.requests[Source.ORIGIN]
    if origin.answered + _UNCOUNTED < least:
        yield f"the edge says that {least} answers came from the server, which counted {origin.answered}"
    # A request that failed at the edge may have reached the server.
    failed = sum(count for name, count in tally.sources.items() if name.endswith(f" {Source.EDGE_REFUSAL} 503"))
    lookups = max(_LOOKUPS_AT_LEAST, int(_LOOKUPS_PER_SECOND * origin.seconds * origin.sales))
    lookups += sum(sum(answers.by_step.get(step, {}).values()) for step in _MAY_REFUSE)
    most = least + answers.requests[Source.NOBODY] + failed + lookups
    if origin.answered > most:
        yield f"the server counted {origin.answered} requests, but the edge accounts for {most} at most"


def _all(counts: Counter[str]) -> dict[str, int]:
    return {source.value: counts[source] for source in Source}
