"""Where a crowd was answered: by the header of each answer, added up, and compared with the server's own count."""

import pytest

from holdfast.lab.load.http import Response, end_of_head, parse_response
from holdfast.lab.rush.buyers.record import BuyerRecord
from holdfast.lab.rush.buyers.source import Source, source_of
from holdfast.lab.rush.buyers.tally import Tally
from holdfast.lab.rush.checks.edge_answers import OriginCount, answers_of, check_origin


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (b"Holdfast-Cache: HIT\r\n", Source.EDGE_CACHE),
        (b"holdfast-cache: STALE\r\n", Source.EDGE_CACHE),
        (b"Holdfast-Cache: UPDATING\r\n", Source.EDGE_CACHE),
        (b"Holdfast-Cache: EDGE\r\n", Source.EDGE_REFUSAL),
        (b"Holdfast-Cache: MISS\r\n", Source.ORIGIN),
        (b"Holdfast-Cache: REVALIDATED\r\n", Source.ORIGIN),
        (b"", Source.ORIGIN),
    ],
)
def test_the_header_of_an_answer_says_where_it_came_from(header: bytes, source: Source) -> None:
    answer = b"HTTP/1.1 409 Conflict\r\n" + header + b"Content-Length: 2\r\n\r\n{}"
    end = end_of_head(answer)
    assert end is not None
    assert source_of(parse_response(answer, end, 0.0, 1.0)) is source


def test_no_answer_comes_from_nobody() -> None:
    assert source_of(Response(0)) is Source.NOBODY


def tally() -> Tally:
    counted = Tally()
    counted.sources = {
        "now edge_cache 200": 900,
        "now origin 200": 10,
        "join origin 200": 60,
        "join edge_refusal 409": 30,
        "purchase edge_refusal 503": 4,
        "purchase nobody 0": 6,
    }
    return counted


def records() -> list[BuyerRecord]:
    found = [
        (Source.EDGE_CACHE, False), (Source.EDGE_CACHE, True), (Source.EDGE_REFUSAL, False), (Source.ORIGIN, True),
        (Source.NOBODY, False),
    ]  # fmt: skip
    return [
        BuyerRecord(number, f"b-{number}", 0, answered_by=source, reached_origin=reached)
        for number, (source, reached) in enumerate(found)
    ]


def test_buyers_count_by_their_last_answer_and_requests_by_each() -> None:
    answers = answers_of(records(), tally())
    assert answers.buyers == {"edge_cache": 2, "edge_refusal": 1, "origin": 1, "nobody": 1}
    assert answers.reached_origin == 2
    assert answers.requests == {"edge_cache": 900, "edge_refusal": 34, "origin": 70, "nobody": 6}
    assert answers.by_step["join"] == {"edge_cache": 0, "edge_refusal": 30, "origin": 60, "nobody": 0}
    assert sum(answers.buyers.values()) == len(records())


# 70 answers came from the server, 6 were not waited for and 4 failed on the way. The edge asked by itself for each of
# 100 joins and purchases at most, and twice a second.
@pytest.mark.parametrize(("counted", "ok"), [(68, False), (70, True), (200, True), (201, False)])
def test_the_server_must_have_answered_what_the_edge_says_it_did(counted: int, ok: bool) -> None:
    found = check_origin(answers_of(records(), tally()), tally(), OriginCount(counted, 10.0, 1))
    assert found.ok is ok
    assert found.name == "edge_account_true"
