// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, newKey, pathOf } from "../call.js";
import type { Purchase, Quote } from "../types.js";

/** Reserve units, or pay for them at once. */
export function purchase(sale_id: string, args: { quantity: number; min_quantity?: number | null; payment_method?: string | null; proof?: string | null; quote_id?: string | null; idempotency_key?: string; pass?: string; }): Call<Purchase> {
  const key = args.idempotency_key ?? newKey();
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/purchase", sale_id), answers: { 201: "json", 200: "json" }, headers: { "Idempotency-Key": key, "Holdfast-Pass": args.pass }, body: { quantity: args.quantity, min_quantity: args.min_quantity, payment_method: args.payment_method, proof: args.proof, quote_id: args.quote_id }, idempotencyKey: key, isRepeatable: true };
}

/** Fix what a purchase will cost. */
export function quote(sale_id: string, args: { quantity?: number; currency?: string | null; } = {}): Call<Quote> {
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/quote", sale_id), answers: { 201: "json" }, body: { quantity: args.quantity, currency: args.currency }, isRepeatable: true };
}
