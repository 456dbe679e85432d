/**
 * Going back to the shop that sent the visitor here: `/s/{sale}?return_to=…`.
 *
 * Never an open redirect: a URL counts only if its origin is one of the server's allowed origins. It is read by the
 * browser's own parser, and what is used later is what that parser understood, so there is nothing to disagree about. The
 * page's Content Security Policy allows forms to the same origins and no others.
 */
const FIELD = "holdfast_pass";
const MARK = "holdfast_return=1";
const STORAGE_KEY = "holdfast:returned";

/** A URL of an allowed origin, or null. A path belongs to the origin of `base`, which must be allowed, too. */
export function allowedUrl(text, origins, base = null) {
  try {
    const url = base ? new URL(text, base) : new URL(text);
    const isHttp = url.protocol === "https:" || url.protocol === "http:";
    const isPlain = url.username === "" && url.password === "";
    return isHttp && isPlain && origins.includes(url.origin) ? url : null;
  } catch {
    return null;
  }
}

/** Where to go with the pass; null if the visitor did not come from the shop, or the sale has no passes. */
export function returnTarget(sale, origins, search = location.search) {
  const wanted = new URLSearchParams(search).get("return_to");
  if (!wanted || sale.room.mode === "off") return null;
  return allowedUrl(wanted, origins, allowedUrl(sale.checkout_url, origins)?.origin);
}

/** What the form needs. The mark tells the shop's middleware that this form is for it. */
export function returnForm(target, pass) {
  const action = new URL(target);
  action.search = action.search ? `${action.search}&${MARK}` : MARK;
  return { action: action.href, name: FIELD, value: pass };
}

/** The shop's checkout for a cart that is paid there, or null. */
export function checkoutLink(sale, reservation, origins) {
  const url = allowedUrl(sale.checkout_url, origins);
  if (url === null) return null;
  url.searchParams.set("sale_id", sale.sale_id);
  url.searchParams.set("reservation_id", reservation.reservation_id);
  return url;
}

/**
 * Whether to go back by itself: once for each pass. A shop that does not take a pass, or a browser without cookies, sends
 * the visitor here again; then there is a button instead of a loop.
 */
export function isFirstReturn(pass) {
  const mark = pass.slice(-24);
  try {
    if (sessionStorage.getItem(STORAGE_KEY) === mark) return false;
    sessionStorage.setItem(STORAGE_KEY, mark);
    return sessionStorage.getItem(STORAGE_KEY) === mark;
  } catch {
    return false;
  }
}
