// Asking the server, as whoever is signed in. The key itself is sent once, to sign in, and kept nowhere.
import { createStore } from "./store.mjs";

const TIMEOUT_MS = 5000;

/** undefined: not known yet; null: nobody. */
export const session = createStore(undefined);
/** When the server was last heard, and since when it is not. */
export const contact = createStore({ heardAt: null, lost: false });

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || `The server answered ${status}.`);
    this.status = status;
    this.reason = body.reason;
    this.fields = Object.fromEntries((body.errors || []).map((error) => [error.field, error.message]));
  }
}

export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached. Nothing is known of what was asked; look before you ask again.");
  }
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);

/** If the answer is lost it is asked for again, under the same key: what is done is done once. */
export async function postOnce(path, body) {
  const headers = { "Idempotency-Key": newKey() };
  try {
    return await call("POST", path, body, headers);
  } catch (problem) {
    if (!(problem instanceof Unreachable) && problem.reason !== "outcome_unknown") throw problem;
    return call("POST", path, body, headers);
  }
}

/** `crypto.randomUUID` is there only where the page came by TLS. */
const newKey = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("-");

export async function call(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      // The same address may be cached for everyone else.
      cache: "no-store",
      credentials: "same-origin",
      headers: { "Holdfast-Console": "1", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    contact.set((last) => ({ ...last, lost: true }));
    throw new Unreachable();
  }
  contact.set({ heardAt: Date.now(), lost: false });
  return read(answer, path);
}

async function read(answer, path) {
  const given = answer.status === 204 ? null : await answer.json().catch(() => ({}));
  if (answer.ok) return given;
  if (answer.status === 401 && session.get()) session.set(null);
  throw new Problem(answer.status, given || { detail: `${path}: ${answer.status}` });
}

export async function resume() {
  try {
    session.set(await get("/v1/console/session"));
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    session.set(null);
  }
}

export async function signIn(key) {
  session.set(await call("POST", "/v1/console/session", undefined, { Authorization: `Bearer ${key}` }));
}

export async function signOut() {
  try {
    await remove("/v1/console/session");
  } finally {
    session.set(null);
  }
}

export const may = (scope) => Boolean(session.get()?.scopes.includes(scope));
