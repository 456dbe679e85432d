"""Where an answer came from, by the header that the edge adds to it (docs/EDGE.md)."""

from enum import StrEnum

from holdfast.lab.load.http import Response


class Source(StrEnum):
    EDGE_CACHE = "edge_cache"
    EDGE_REFUSAL = "edge_refusal"
    ORIGIN = "origin"
    # No answer came.
    NOBODY = "nobody"


# Copies that the edge had. With any other word, such as MISS or REVALIDATED, it asked the origin for this answer.
_KEPT = frozenset({"HIT", "STALE", "UPDATING"})


def source_of(response: Response) -> Source:
    if not response.status:
        return Source.NOBODY
    if response.cache == "EDGE":
        return Source.EDGE_REFUSAL
    return Source.EDGE_CACHE if response.cache in _KEPT else Source.ORIGIN
