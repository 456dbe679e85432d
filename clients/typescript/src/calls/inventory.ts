// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, newKey, pathOf } from "../call.js";
import type { Pool, Reservation } from "../types.js";

/** Create a pool, or set its total. */
export function createPool(sku_id: string, args: { total_units: number; per_owner_limit?: number | null; shards?: number | null; }): Call<Pool> {
  return { method: "PUT", path: pathOf("/v1/inventory/{sku_id}", sku_id), answers: { 200: "json" }, body: { total_units: args.total_units, per_owner_limit: args.per_owner_limit, shards: args.shards }, isRepeatable: true };
}

/** How many units are free, held and sold. */
export function available(sku_id: string): Call<Pool> {
  return { method: "GET", path: pathOf("/v1/inventory/{sku_id}/available", sku_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Hold units for an owner until a deadline. */
export function reserve(sku_id: string, args: { owner_id: string; quantity: number; ttl_seconds?: number; idempotency_key?: string; min_quantity?: number | null; tier?: number; }): Call<Reservation> {
  const key = args.idempotency_key ?? newKey();
  return { method: "POST", path: pathOf("/v1/inventory/{sku_id}/reserve", sku_id), answers: { 200: "json" }, body: { owner_id: args.owner_id, quantity: args.quantity, ttl_seconds: args.ttl_seconds, idempotency_key: key, min_quantity: args.min_quantity, tier: args.tier }, idempotencyKey: key, isRepeatable: true };
}
