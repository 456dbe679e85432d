// The HTTP client. The service key is sent once, to sign in, and is not stored; a session cookie replaces it.
import { createStore } from "./store.mjs";
import * as paths from "../paths.mjs";

const TIMEOUT_MS = 5000;

/** undefined: not loaded yet; null: signed out. */
export const session = createStore(undefined);
/** When the server last responded, and whether the last request failed. */
export const connection = createStore({ respondedAt: null, lost: false });

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || `The server responded with ${status}.`);
    this.status = status;
    this.reason = body.reason;
    this.fields = Object.fromEntries((body.errors || []).map((error) => [error.field, error.message]));
  }
}

export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached. The result is unknown: check before you try again.");
  }
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);

/** Retries once if the response is lost. The idempotency key makes that safe. */
export async function postOnce(path, body) {
  const headers = { "Idempotency-Key": newKey() };
  try {
    return await call("POST", path, body, headers);
  } catch (problem) {
    if (!(problem instanceof Unreachable) && problem.reason !== "outcome_unknown") throw problem;
    return call("POST", path, body, headers);
  }
}

/** `crypto.randomUUID` exists in secure contexts only. */
const newKey = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("-");

export async function call(method, path, body, headers = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      // Caches may store this URL for other clients.
      cache: "no-store",
      credentials: "same-origin",
      headers: { "Holdfast-Console": "1", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    connection.set((last) => ({ ...last, lost: true }));
    throw new Unreachable();
  }
  connection.set({ respondedAt: Date.now(), lost: false });
  return read(response, path);
}

async function read(response, path) {
  const body = response.status === 204 ? null : await response.json().catch(() => ({}));
  if (response.ok) return body;
  if (response.status === 401 && session.get()) session.set(null);
  throw new Problem(response.status, body || { detail: `${path}: ${response.status}` });
}

export async function resume() {
  try {
    session.set(await get(paths.getSession()));
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    session.set(null);
  }
}

export async function signIn(key) {
  session.set(await call("POST", paths.signIn(), undefined, { Authorization: `Bearer ${key}` }));
}

export async function signInWithPassword(email, password) {
  session.set(await post(paths.signInWithPassword(), { email, password }));
}

export async function acceptInvitation(token, password) {
  session.set(await post(paths.acceptInvitation(), { token, password }));
}

export async function signOut() {
  try {
    await remove(paths.signOut());
  } finally {
    session.set(null);
  }
}

export const may = (scope) => Boolean(session.get()?.scopes.includes(scope));
