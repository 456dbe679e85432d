/**
 * Decides which requests are admitted, and how the others are answered: the same for Node and the edge.
 *
 * The loop. A browser without a pass goes to the waiting page with `return_to`, this page's URL. When its turn comes, the
 * waiting page posts a form with the pass to that URL. Here the pass is verified and kept in a cookie of this site, and the
 * browser is redirected to the plain URL: the pass is never part of a URL.
 */
import { KeysUnknown } from "./keys.mjs";
import { isInTime, readPass } from "./passes.mjs";

const HEADER = "holdfast-pass";
const COOKIE = "holdfast_pass";
const FIELD = "holdfast_pass";
const MARK = "holdfast_return=1";
const FORM = "application/x-www-form-urlencoded";
const HOST_PREFIX = "__Host-";
const REMEMBERED_MAX = 10_000;
/** A pass has at most 2,000 characters; the rest is the form's own. */
export const MAX_FORM = 4_000;

/** A request: `header(name)` by its name in lower case, `readForm()` for the body as text. */
export class Visit {
  constructor({ method, url, header, readForm, scheme }) {
    Object.assign(this, { method, header, readForm, scheme });
    const [target] = url.split("#", 1);
    const mark = target.indexOf("?");
    const path = mark < 0 ? target : target.slice(0, mark);
    // A target may be absolute, as proxies send it: `http://host/path`.
    this.path = path.startsWith("/") ? path : (pathnameOf(path) ?? path);
    this.query = mark < 0 ? "" : target.slice(mark + 1);
  }

  get isReturn() {
    const type = (this.header("content-type") ?? "").split(";")[0].trim().toLowerCase();
    return this.method === "POST" && type === FORM && this.query.split("&").includes(MARK);
  }

  /** Without the mark. Always a path of this site: `//host` and `/\host` would be another. */
  get localUrl() {
    const query = this.query.split("&").filter((part) => part && part !== MARK).join("&");
    const path = `/${this.path.replace(/^(?:[/\\]|%2f|%5c)+/i, "").replaceAll("\\", "%5C")}`;
    return path + (query ? `?${query}` : "");
  }

  get isSecure() {
    return this.scheme === "https" || this.header("x-forwarded-proto") === "https";
  }

  cookie(wanted) {
    const parts = (this.header("cookie") ?? "").split(";").map((part) => part.trim());
    return parts.find((part) => part.startsWith(`${wanted}=`))?.slice(wanted.length + 1) || null;
  }
}

export class Gatekeeper {
  #known = new Map();

  /**
   * `paths` are the path prefixes that need a pass. Browsers without one are redirected to `waitingUrl`, and return to
   * `origin`: this shop as browsers see it, never what a request's `Host` claims. `buyerOf(visit)` gives the id of the
   * signed-in user.
   */
  constructor(saleId, keys, { paths = ["/"], waitingUrl = null, origin = "", buyerOf = null, cookie = COOKIE } = {}) {
    Object.assign(this, { saleId, keys, paths, waitingUrl, buyerOf, cookie });
    this.origin = origin.replace(/\/+$/, "");
  }

  /**
   * Whether the path is guarded in any spelling, because frameworks differ: some route by the path as it was sent, some
   * normalise it, and Express ignores case. Guarding too much is harmless. What is no URL is guarded.
   */
  guards(path) {
    const pathname = pathnameOf(path);
    return pathname === null || [path, pathname].flatMap(spellings).some((one) => this.#isBelow(one));
  }

  #isBelow(path) {
    const lower = path.toLowerCase();
    return this.paths.some((prefix) => `${lower}/`.startsWith(`${prefix.toLowerCase().replace(/\/+$/, "")}/`));
  }

  /** `{pass}` if the visit is admitted, else `{reply: {status, headers, body}}`. */
  async judge(visit) {
    const token = visit.isReturn ? fieldOf(await visit.readForm()) : this.#shown(visit);
    let pass = null;
    try {
      pass = token ? await this.#read(token) : null;
    } catch (error) {
      if (!(error instanceof KeysUnknown)) throw error;
      return problem(503, "not_ready", "Not ready", "Passes cannot be verified at the moment. Try again shortly.");
    }
    if (pass?.saleId !== this.saleId) pass = null;
    if (visit.isReturn) return this.#settleIn(visit, token, pass);
    const isTheirs = pass !== null && (this.buyerOf === null || (await this.buyerOf(visit)) === pass.buyerId);
    return isTheirs ? { pass } : this.#refuse(visit);
  }

  #shown(visit) {
    return visit.header(HEADER) || visit.cookie(HOST_PREFIX + this.cookie) || visit.cookie(this.cookie);
  }

  async #read(token) {
    let pass = this.#known.get(token) ?? null;
    if (pass === null) {
      pass = await readPass(token, this.keys);
      if (pass !== null && this.#known.size >= REMEMBERED_MAX) this.#known.clear();
      if (pass !== null) this.#known.set(token, pass);
    }
    return pass !== null && isInTime(pass) ? pass : null;
  }

  /** A bad pass is not sent to the room again, which would return it for ever. */
  #settleIn(visit, token, pass) {
    if (pass === null) return problem(403, "admission_required", "Not admitted", "This pass is not valid here.");
    const isSecure = this.origin ? this.origin.startsWith("https:") : visit.isSecure;
    const name = isSecure ? HOST_PREFIX + this.cookie : this.cookie;
    const lastsS = Math.max(pass.expiresAt - Math.floor(Date.now() / 1000), 1);
    const cookie = `${name}=${token}; Path=/; Max-Age=${lastsS}; HttpOnly; SameSite=Lax${isSecure ? "; Secure" : ""}`;
    return redirect(visit.localUrl, { "set-cookie": cookie });
  }

  #refuse(visit) {
    const wantsPage = ["GET", "HEAD"].includes(visit.method) && (visit.header("accept") ?? "").includes("text/html");
    if (this.waitingUrl === null || !wantsPage) {
      const detail = `This has a waiting room: sale ${this.saleId}. Send a valid \`Holdfast-Pass\`.`;
      return problem(429, "admission_required", "Wait for your turn", detail);
    }
    const joint = this.waitingUrl.includes("?") ? "&" : "?";
    return redirect(`${this.waitingUrl}${joint}return_to=${encodeURIComponent(this.origin + visit.localUrl)}`);
  }
}

function pathnameOf(target) {
  try {
    return new URL(target, "http://x").pathname;
  } catch {
    return null;
  }
}

function spellings(path) {
  let decoded = path;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    // Not decodable: compared as it is.
  }
  return [path, decoded, normalised(decoded)];
}

/** Without `.`, `..` and empty segments. Not by `node:path`, which the edge does not have. */
function normalised(path) {
  const kept = [];
  for (const part of path.split("/")) {
    if (part === "..") kept.pop();
    else if (part !== "" && part !== ".") kept.push(part);
  }
  return `/${kept.join("/")}`;
}

function fieldOf(body) {
  return body.length <= MAX_FORM ? new URLSearchParams(body).get(FIELD) : null;
}

function redirect(location, headers = {}) {
  return { reply: { status: 303, headers: { location, "cache-control": "no-store", ...headers }, body: "" } };
}

function problem(status, reason, title, detail) {
  const headers = {
    "content-type": "application/problem+json",
    "cache-control": "no-store",
    "retry-after": String(1 + Math.floor(Math.random() * 3)),
  };
  const body = JSON.stringify({ type: `urn:holdfast:${reason}`, title, status, detail, reason });
  return { reply: { status, headers, body } };
}
