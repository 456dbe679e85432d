// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call } from "../call.js";
import type { Session } from "../types.js";

/** Sign in to the console with a service key. */
export function signIn(): Call<Session> {
  return { method: "POST", path: "/v1/console/session", answers: { 200: "json" }, isRepeatable: true };
}

/** Who is signed in. */
export function getSession(): Call<Session> {
  return { method: "GET", path: "/v1/console/session", answers: { 200: "json" }, isRepeatable: true };
}

/** Sign out. */
export function signOut(): Call<null> {
  return { method: "DELETE", path: "/v1/console/session", answers: { 204: "nothing" }, isRepeatable: true };
}
