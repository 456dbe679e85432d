"""The source of a response, from the header that the edge adds to it (docs/EDGE.md)."""

from enum import StrEnum

from holdfast.lab.load.http import Response


class Source(StrEnum):
    EDGE_CACHE = "edge_cache"
    EDGE_REFUSAL = "edge_refusal"
    ORIGIN = "origin"
    # There was no response.
    NOBODY = "nobody"


# Served from the edge's cache. With any other value, such as MISS or REVALIDATED, the edge asked the origin.
_KEPT = frozenset({"HIT", "STALE", "UPDATING"})


def source_of(response: Response) -> Source:
    if not response.status:
        return Source.NOBODY
    if response.cache == "EDGE":
        return Source.EDGE_REFUSAL
    return Source.EDGE_CACHE if response.cache in _KEPT else Source.ORIGIN
