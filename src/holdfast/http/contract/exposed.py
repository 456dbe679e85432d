"""The headers of answers that a page of another origin may read (CORS)."""

from holdfast.http.contract.endpoints import ENDPOINTS

# A page sees only these and a few that are always visible. `Date` is how holdfast.js knows the server's clock.
_ALWAYS = ("age", "date", "etag", "holdfast-seen", "ratelimit", "ratelimit-policy", "retry-after", "x-request-id")
_DECLARED = {name.lower() for one in ENDPOINTS for said in one.answers.values() for name in said.headers}
EXPOSED_HEADERS = ", ".join(sorted(_DECLARED.union(_ALWAYS)))
