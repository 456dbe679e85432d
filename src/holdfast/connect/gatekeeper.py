"""Decides which requests are admitted, and how the others are answered. Shared by ASGI and WSGI.

The loop. A browser without a pass is redirected to the waiting page with `return_to`, this page's URL. When its turn
comes, the waiting page posts a form with the pass to that URL. Here the pass is verified and stored in a cookie of this
site, and the browser is redirected to the plain URL. The pass is never part of a URL, so no log, history or referrer
contains it.
"""

from collections.abc import Callable, Sequence
from posixpath import normpath
from time import time
from urllib.parse import parse_qs, quote

from .keys import KeysUnknown, PublishedKeys
from .passes import Pass, is_in_time, key_id_of, read_pass
from .visit import MAX_FORM, Reply, Visit, problem, redirect

HEADER = "holdfast-pass"
COOKIE = "holdfast_pass"
# The content type of the form in which the waiting page sends the pass.
FIELD = "holdfast_pass"
# With this prefix, browsers accept a cookie from this host alone, by TLS, for all paths.
HOST_PREFIX = "__Host-"
REMEMBERED_MAX = 10_000

# Returns the ID of the signed-in user of the shop, or None.
BuyerOf = Callable[[Visit], str | None]


class Gatekeeper:
    def __init__(
        self,
        sale_id: str,
        keys: PublishedKeys,
        *,
        paths: Sequence[str] = ("/",),
        waiting_url: str | None = None,
        origin: str = "",
        buyer_of: BuyerOf | None = None,
        cookie: str = COOKIE,
    ) -> None:
        """`paths` are the path prefixes that need a pass. Browsers without one are redirected to `waiting_url`, and
        return to `origin`: this shop as browsers see it, never what a request's `Host` claims. Without it they return
        to the origin of the sale's `checkout_url`."""
        self._sale_id = sale_id
        self.keys = keys
        self._paths = tuple(paths)
        self._waiting_url = waiting_url
        self._origin = origin.rstrip("/")
        self._buyer_of = buyer_of
        self._cookie = cookie
        self._known: dict[str, Pass] = {}

    def guards(self, path: str) -> bool:
        """Whether the path is guarded as it was sent or normalised, because frameworks route by either. Guarding too
        much is harmless."""
        sent = "/" + path.lstrip("/")
        return self._is_below(sent) or self._is_below(normpath(sent))

    def _is_below(self, path: str) -> bool:
        return any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in self._paths)

    def shown(self, visit: Visit) -> str | None:
        """The pass that a request carries in its header or a cookie, unverified."""
        given = visit.headers.get(HEADER)
        if given:
            return given
        cookies = visit.cookies
        return cookies.get(HOST_PREFIX + self._cookie) or cookies.get(self._cookie)

    def returned(self, body: bytes) -> str | None:
        """The pass in the waiting page's form, unverified."""
        if len(body) > MAX_FORM:
            return None
        fields = parse_qs(body.decode("latin-1"), max_num_fields=20, keep_blank_values=True)
        return fields[FIELD][0] if FIELD in fields else None

    def needs_fetch(self, token: str | None) -> bool:
        """Whether keys have to be fetched before this pass can be checked."""
        key_id = None if token is None or token in self._known else key_id_of(token)
        return key_id is not None and self.keys.needs_fetch(key_id)

    def judge(self, visit: Visit, token: str | None) -> Pass | Reply:
        try:
            known = None if token is None else self._read(token)
        except KeysUnknown:
            return problem(503, "not_ready", "Not ready", "Passes cannot be verified at the moment. Try again shortly.")
        if known is not None and known.sale_id != self._sale_id:
            known = None
        if visit.is_return:
            return self._settle_in(visit, token, known)
        if known is None or not self._is_theirs(known, visit):
            return self._refuse(visit)
        return known

    def _read(self, token: str) -> Pass | None:
        known = self._known.get(token)
        if known is None:
            known = read_pass(token, self.keys.all(), time()) if key_id_of(token) is not None else None
            if known is not None:
                self._remember(token, known)
        return known if known is not None and is_in_time(known.expires_at, time()) else None

    def _remember(self, token: str, known: Pass) -> None:
        """Verifying a signature takes a large part of a millisecond, and buyers send many requests."""
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[token] = known

    def _is_theirs(self, known: Pass, visit: Visit) -> bool:
        return self._buyer_of is None or self._buyer_of(visit) == known.buyer_id

    def _settle_in(self, visit: Visit, token: str | None, known: Pass | None) -> Reply:
        """The next request checks whose pass it is, because this one may come without the shop's own cookies. A bad
        pass is not sent back to the room, which would return it again in an endless loop."""
        if token is None or known is None:
            return problem(
                403, "admission_required", "Not admitted", "This pass is not valid here. Join the line again."
            )
        is_secure = self._origin.startswith("https:") or (not self._origin and visit.is_secure)
        name, secure = (HOST_PREFIX + self._cookie, "; Secure") if is_secure else (self._cookie, "")
        lasts_s = max(known.expires_at - int(time()), 1)
        cookie = f"{name}={token}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}"
        return redirect(visit.local_url, ("set-cookie", cookie))

    def _refuse(self, visit: Visit) -> Reply:
        wants_page = visit.method in ("GET", "HEAD") and "text/html" in visit.headers.get("accept", "")
        if self._waiting_url is None or not wants_page:
            detail = f"This has a waiting room: sale {self._sale_id}. Send a valid `Holdfast-Pass`."
            return problem(429, "admission_required", "Wait for your turn", detail)
        joint = "&" if "?" in self._waiting_url else "?"
        return redirect(f"{self._waiting_url}{joint}return_to={quote(self._origin + visit.local_url, safe='')}")
