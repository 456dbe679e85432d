"""How long caches between the server and a crowd may keep a sale: browsers, proxies and CDNs.

Browsers keep `now` for a second. Shared caches keep it for as long as it is likely to stay true: a second while the
sale is running, longer once it is sold out or over if a purge announces the few changes that can follow. Every answer
about a sale carries its cache tag, so that one purge finds all of them.
"""

from holdfast.caches.purging import cache_tag
from holdfast.domain.sale.sale import Phase

# Facts change rarely, but a price must not be shown for long after it changed: CDNs ask again after a second, and may
# show the last known facts while the server is down.
FACTS = "public, max-age=300, stale-while-revalidate=60"
FACTS_ON_CDN = "public, max-age=1, stale-if-error=300"
# The page of a sale has the price in it, too. Browsers ask each time, for a 304.
SALE_PAGE = ("cache-control", "public, max-age=0, s-maxage=1, stale-if-error=300")
# A crowd may come before the sale is created.
NO_SALE_PAGE = ("cache-control", "public, max-age=0, s-maxage=1")
_FINAL = frozenset({Phase.SOLD_OUT, Phase.ENDED})
_NOW_FINAL = "public, max-age=1, s-maxage=30, stale-if-error=60"
_NOW = "public, max-age=1, s-maxage=1, stale-while-revalidate=5"


def tag_headers(sale_id: str) -> list[tuple[str, str]]:
    """Cloudflare and Akamai read the first, Fastly and Varnish the second."""
    tag = cache_tag(sale_id)
    return [("cache-tag", tag), ("surrogate-key", tag)]


def cache_headers(sale_id: str, state: Phase, *, is_purged: bool) -> list[tuple[str, str]]:
    """The caching headers of `now`. `is_purged`: caches are purged when a sale changes."""
    return [("cache-control", _NOW_FINAL if is_purged and state in _FINAL else _NOW), *tag_headers(sale_id)]


def facts_headers(sale_id: str) -> list[tuple[str, str]]:
    return [("cache-control", FACTS), ("cdn-cache-control", FACTS_ON_CDN), *tag_headers(sale_id)]
