// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { Revocation, RevocationList } from "../types.js";

/** Buyers and tokens that are revoked, newest first. */
export function listRevocations(): Call<RevocationList> {
  return { method: "GET", path: "/v1/ops/revocations", answers: { 200: "json" }, isRepeatable: true };
}

/** Refuse every token of a buyer. */
export function revokeBuyer(buyer_id: string, args: { expires_at?: string | null; reason?: string | null; } = {}): Call<Revocation> {
  return { method: "PUT", path: pathOf("/v1/ops/revocations/buyers/{buyer_id}", buyer_id), answers: { 200: "json" }, body: { expires_at: args.expires_at, reason: args.reason }, isRepeatable: true };
}

/** Accept a buyer's tokens again. */
export function restoreBuyer(buyer_id: string): Call<null> {
  return { method: "DELETE", path: pathOf("/v1/ops/revocations/buyers/{buyer_id}", buyer_id), answers: { 204: "nothing" }, isRepeatable: true };
}

/** Refuse one token of a buyer, by its `jti`. */
export function revokeToken(token_id: string, args: { expires_at?: string | null; reason?: string | null; } = {}): Call<Revocation> {
  return { method: "PUT", path: pathOf("/v1/ops/revocations/tokens/{token_id}", token_id), answers: { 200: "json" }, body: { expires_at: args.expires_at, reason: args.reason }, isRepeatable: true };
}

/** Accept a token again. */
export function restoreToken(token_id: string): Call<null> {
  return { method: "DELETE", path: pathOf("/v1/ops/revocations/tokens/{token_id}", token_id), answers: { 204: "nothing" }, isRepeatable: true };
}
