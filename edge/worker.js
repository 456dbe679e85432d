/**
 * Holdfast's edge as a Cloudflare worker: caches what is public, verifies passes with the published keys, and refuses
 * what cannot succeed. See docs/EDGE.md.
 *
 * It only ever refuses: what it lets through is verified again by Holdfast. It refuses by what `now` said a second ago
 * at most, and by the server's time in that answer, not by its own. What it does not know for certain goes to Holdfast.
 *
 * Bindings: ORIGIN, the URL of Holdfast; optionally ALLOWED_ORIGINS, as Holdfast's setting, and BUYING_LIMIT, a rate limit
 * for joins and purchases per address.
 */

const NOW_S = 1;
const AVAILABLE_S = 2;
const KEYS_FRESH_MS = 60_000;
/** An unknown key ID means that keys were rotated or that the pass is forged: this bounds the load of the latter. */
const KEYS_PAUSE_MS = 5_000;
/** For an answer that another request has asked for. */
const WAIT_MAX_MS = 5_000;
const PASS_MAX = 2_000;
const KEPT_MAX = 1_000;
/** Holdfast takes no larger ones. */
const BODY_MAX = 16_384;
const ID = "([A-Za-z0-9._:-]+)";
const SALE = new RegExp(`^/v1/sales/${ID}(/now)?$`);
const SALE_PAGE = new RegExp(`^/s/${ID}$`);
const BUYING = new RegExp(`^/v1/sales/${ID}/(purchase|queue|admission)$`);
const AVAILABLE = new RegExp(`^/v1/inventory/${ID}/available$`);
const PAGE = /^\/(s|lottery|assets|store)\/|^\/(docs|console|openapi\.json|v1\/features|\.well-known\/jwks\.json)$/;

/** As in Holdfast's problem catalogue; a test compares them. */
export const PROBLEMS = {
  admission_required: { title: "Wait for your turn", status: 429, detail: "This sale has a waiting room. Send a valid `Holdfast-Pass`.", retryable: false },
  sold_out: { title: "Sold out", status: 409, detail: "Every unit is sold.", retryable: false },
  sale_ended: { title: "Ended", status: 409, detail: "The sale has ended.", retryable: false },
  rate_limited: { title: "Too many requests", status: 429, detail: "Rate limit exceeded.", retryable: true },
  busy: { title: "Busy", status: 503, detail: "Too many requests are waiting. Nothing was changed; retry shortly.", retryable: true },
  outcome_unknown: { title: "Outcome unknown", status: 503, detail: "It is unknown whether this was carried out.", retryable: true },
}; // prettier-ignore

const STYLE =
  "body{margin:0;min-height:100vh;display:grid;place-items:center;font:17px/1.5 system-ui,sans-serif}main{max-width:30rem;padding:2rem}";
const BUSY_PAGE = (seconds) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="${seconds}"><title>Busy for a moment</title><style>${STYLE}</style></head>
<body><main><h1>Busy for a moment</h1>
<p>Your place is safe. Anything you have reserved stays yours until its deadline.</p>
<p>This page tries again by itself in a few seconds. You do not need to reload it.</p></main></body></html>`;

/**
 * Of this isolate: requests under way by cache key, the last `now` and facts that were seen, and the published keys.
 * Answers are kept as `{ status, headers, body }`: the runtime forbids a request to read another one's Response.
 */
const underWay = new Map();
const lastSeen = new Map();
let keys = { at: -Infinity, tried: -Infinity, byId: new Map() };

export default {
  async fetch(request, env, context) {
    const edge = { request, env, context, url: new URL(request.url) };
    return readable(edge, await answerTo(edge));
  },
};

async function answerTo(edge) {
  const { request, url } = edge;
  const isRead = request.method === "GET" || request.method === "HEAD";
  const buying = BUYING.exec(url.pathname);
  if (buying && request.method === "POST") return buy(edge, buying[1], buying[2]);
  if (isRead && SALE.test(url.pathname) && !isOperator(request)) return cachedFor(edge, url.pathname, NOW_S);
  if (isRead && AVAILABLE.test(url.pathname) && request.headers.has("authorization")) {
    return cachedFor(edge, `${url.pathname}?caller=${await digest(request.headers.get("authorization"))}`, AVAILABLE_S);
  }
  if (isRead && SALE_PAGE.test(url.pathname)) return cachedFor(edge, url.pathname, NOW_S);
  if (isRead && PAGE.test(url.pathname)) return cachedFor(edge, url.pathname + url.search, null);
  return forward(edge);
}

/** CORS: a cached answer and a refusal are the same for all origins, so the headers are added last. */
function readable({ request, env, url }, answer) {
  const origin = request.headers.get("origin");
  const allowed = (env.ALLOWED_ORIGINS ?? "").split(",").map((one) => one.trim());
  if (!origin || !allowed.includes(origin) || !/^\/(v1|assets)\//.test(url.pathname)) return answer;
  if (answer.headers.has("access-control-allow-origin")) return answer;
  const shown = new Response(answer.body, answer);
  shown.headers.set("access-control-allow-origin", origin);
  shown.headers.set("access-control-expose-headers", "*");
  shown.headers.append("vary", "origin");
  return shown;
}

/** Operators see more of a sale than the public. A buyer's token changes nothing there. */
const isOperator = ({ headers }) =>
  headers.has("holdfast-console") || !/^(bearer\s+ey.*)?$/i.test(headers.get("authorization") ?? "");

async function buy(edge, saleId, what) {
  const { request, env } = edge;
  // A refusal that leaves the body unread would break the connection.
  if (Number(request.headers.get("content-length") ?? Infinity) <= BODY_MAX) edge.body = await request.arrayBuffer();
  if (env.BUYING_LIMIT && !(await env.BUYING_LIMIT.limit({ key: addressOf(request) })).success) return refuse("rate_limited");
  const isRetry = request.headers.has("holdfast-retry");
  const sale = await saleNow(edge, saleId);
  if (sale === null) return forward(edge);
  if (what !== "purchase" || sale.room === "off") {
    const reason = isRetry ? null : refusalBy(sale);
    return reason === null ? forward(edge) : refuse(reason);
  }
  const pass = await judge(edge, request.headers.get("holdfast-pass"), saleId, sale);
  // The answer to a purchase may have been lost, and the pass may have expired since.
  if (pass === "refused" || (pass === "expired" && !isRetry)) return refuse(refusalBy(sale) ?? "admission_required");
  return sale.isShedding && !isRetry ? refuse("busy") : forward(edge);
}

function refusalBy(sale) {
  if (sale.state === "sold_out") return "sold_out";
  if (sale.state === "ended") return "sale_ended";
  return sale.isShedding ? "busy" : null;
}

/** The fields of `Holdfast-Sale`, or null if the state of the sale is not known for certain. */
async function saleNow(edge, saleId) {
  const path = `/v1/sales/${saleId}/now`;
  const answer = await cached(edge, path, NOW_S, path);
  const found = /^state=(\w+), room=(\w+), time=(\d+)(, shed)?/.exec(answer?.headers.get("holdfast-sale") ?? "");
  return found && { state: found[1], room: found[2], time: Number(found[3]), isShedding: found[4] !== undefined };
}

/** "good", "refused" or "expired". Without keys nobody can be judged, and Holdfast decides. */
async function judge(edge, token, saleId, sale) {
  const parts = token && token.length <= PASS_MAX ? token.split(".") : [];
  const header = parts.length === 3 ? parse(parts[0]) : null;
  const claims = header && parse(parts[1]);
  if (!claims || header.typ !== "holdfast-pass" || header.alg !== "Ed25519") return "refused";
  // Which sales a pass of a drop is good for, the server knows.
  if (claims.sale !== saleId && !String(claims.sale).startsWith("drop/")) return "refused";
  const byId = await publishedKeys(edge, header.kid);
  if (byId === null) return "good";
  const key = byId.get(header.kid);
  const signed = new TextEncoder().encode(`${parts[0]}.${parts[1]}`);
  if (!key || !(await isSigned(key, parts[2], signed)) || !Number.isInteger(claims.exp)) return "refused";
  return sale.time < claims.exp ? "good" : "expired";
}

async function isSigned(key, signature, signed) {
  try {
    return await crypto.subtle.verify("Ed25519", key, bytes(signature), signed);
  } catch {
    return false;
  }
}

async function publishedKeys(edge, keyId) {
  const now = Date.now();
  const isWanted = now - keys.at > KEYS_FRESH_MS || !keys.byId.has(keyId);
  if (isWanted && now - keys.tried > KEYS_PAUSE_MS) {
    keys.tried = now;
    try {
      const answer = await fetch(`${edge.env.ORIGIN}/.well-known/jwks.json`);
      const { keys: published } = await answer.json();
      const imported = published.map(async (jwk) => [jwk.kid, await importKey(jwk)]);
      keys = { at: now, tried: now, byId: new Map(await Promise.all(imported)) };
    } catch {
      // What is known stays valid.
    }
  }
  return keys.at === -Infinity ? null : keys.byId;
}

const importKey = ({ kty, crv, x }) =>
  crypto.subtle.importKey("jwk", { kty, crv, x }, { name: "Ed25519" }, false, ["verify"]);

async function cachedFor(edge, key, seconds) {
  const path = edge.url.pathname + edge.url.search;
  const answer = (await cached(edge, key, seconds, path)) ?? lastKnown(key);
  if (!answer) return unreachable(edge);
  const shown = new Response(edge.request.method === "HEAD" ? null : answer.body, answer);
  shown.headers.delete("holdfast-sale");
  const kept = shown.headers.get("holdfast-kept");
  if (kept !== null) shown.headers.set("cache-control", kept);
  shown.headers.delete("holdfast-kept");
  return shown;
}

/** From the cache, or from Holdfast, once for all who ask meanwhile. Null if Holdfast fails. */
async function cached(edge, key, seconds, path) {
  const address = new Request(new URL(key, "https://holdfast.cache"));
  const hit = await caches.default.match(address);
  if (hit) return marked(hit, "HIT");
  if (!underWay.has(key)) {
    const filling = fill(edge, address, key, seconds, path).finally(() => underWay.delete(key));
    underWay.set(key, filling);
    // Others wait for it, also when the one who asked first has gone.
    edge.context.waitUntil(filling);
  }
  const answer = await Promise.race([underWay.get(key), afterWaiting()]);
  return answer && marked(revived(answer), "MISS");
}

/** The runtime takes a request for hung that waits for nothing of its own. Null, as if Holdfast had failed. */
const afterWaiting = () => new Promise((resolve) => setTimeout(resolve, WAIT_MAX_MS, null));

/** What Holdfast answers, as plain values. Null if it fails. */
async function fill(edge, address, key, seconds, path) {
  const answer = await ask(edge, path, seconds === AVAILABLE_S);
  if (answer === null || answer.status >= 500) return null;
  const kept = { status: answer.status, headers: new Headers(answer.headers), body: answer.body };
  // A crowd may come before the sale is created.
  const isNoSale = kept.status === 404 && seconds === NOW_S;
  if (kept.status !== 200 && !isNoSale) return plain(kept);
  if (seconds !== null) {
    kept.headers.set("holdfast-kept", answer.headers.get("cache-control") ?? "no-store");
    kept.headers.set("cache-control", `max-age=${seconds}`);
  }
  kept.headers.delete("vary");
  const found = plain(kept);
  if (seconds === NOW_S && !isNoSale) remember(key, found);
  await caches.default.put(address, revived(found));
  return found;
}

const plain = ({ status, headers, body }) => ({ status, headers: [...headers], body });

/** 204 and 304 have no body. */
const revived = ({ status, headers, body }) => new Response(body.byteLength ? body : null, { status, headers });

/** For while the server is away: people who wait keep the last that was known. */
function remember(key, answer) {
  if (lastSeen.size >= KEPT_MAX) lastSeen.clear();
  lastSeen.set(key, answer);
}

const lastKnown = (key) => (lastSeen.has(key) ? marked(revived(lastSeen.get(key)), "STALE") : null);

async function ask(edge, path, withCaller) {
  const headers = new Headers({ accept: edge.request.headers.get("accept") ?? "*/*" });
  if (withCaller) headers.set("authorization", edge.request.headers.get("authorization"));
  try {
    const answer = await fetch(edge.env.ORIGIN + path, { headers, redirect: "manual" });
    return { status: answer.status, headers: answer.headers, body: await answer.arrayBuffer() };
  } catch {
    return null;
  }
}

async function forward(edge) {
  const { request, env, url } = edge;
  const headers = new Headers(request.headers);
  headers.set("x-forwarded-for", request.headers.get("cf-connecting-ip") ?? "unknown");
  headers.set("x-forwarded-proto", url.protocol.slice(0, -1));
  // A trusted proxy decides what is traced, so what strangers send ends here.
  headers.delete("traceparent");
  try {
    const answer = await fetch(env.ORIGIN + url.pathname + url.search, {
      method: request.method, headers, body: edge.body ?? request.body, redirect: "manual",
    }); // prettier-ignore
    // Holdfast's own 503 names its reason. Whatever else failed is not Holdfast's.
    return answer.status >= 500 && answer.status !== 503 ? unreachable(edge) : answer;
  } catch {
    return unreachable(edge);
  }
}

function unreachable({ request }) {
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (!isRead) return refuse("outcome_unknown");
  if (!(request.headers.get("accept") ?? "").includes("text/html")) return refuse("busy");
  const seconds = jitter();
  return new Response(BUSY_PAGE(seconds), {
    status: 503,
    headers: { "content-type": "text/html; charset=utf-8", "cache-control": "no-store", "retry-after": seconds },
  });
}

function refuse(reason) {
  const { status, ...words } = PROBLEMS[reason];
  const headers = { "content-type": "application/problem+json", "cache-control": "no-store", "holdfast-cache": "EDGE" };
  if (status === 429 || status === 503) headers["retry-after"] = jitter();
  return new Response(JSON.stringify({ type: `urn:holdfast:${reason}`, status, ...words, reason }), { status, headers });
}

/** Clients refused together do not all return together. */
const jitter = () => String(1 + Math.floor(Math.random() * 4));

function marked(answer, where) {
  const copy = new Response(answer.body, answer);
  copy.headers.set("holdfast-cache", where);
  return copy;
}

/** IPv6 by /64: a home or a phone has a network of that size to itself. */
export function addressOf(request) {
  const address = request.headers.get("cf-connecting-ip") ?? "unknown";
  if (!address.includes(":")) return address;
  const [head, tail = ""] = address.split("::");
  const before = head ? head.split(":") : [];
  const after = tail ? tail.split(":") : [];
  const zeros = Array(Math.max(8 - before.length - after.length, 0)).fill("0");
  const groups = address.includes("::") ? [...before, ...zeros, ...after] : before;
  return groups.slice(0, 4).map((group) => parseInt(group, 16).toString(16)).join(":"); // prettier-ignore
}

function parse(part) {
  try {
    const value = JSON.parse(new TextDecoder().decode(bytes(part)));
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

async function digest(text) {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
