// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, newKey, pathOf } from "../call.js";
import type { AfterAttempts, BrandIn, Challenge, Checkout, Now, OperatorSale, OversellPolicy, PaymentKind, PriceIn, ProofOfWorkIn, RoomIn, Sale, SalePage } from "../types.js";

/** Create a sale and load its pool. */
export function createSale(args: { sale_id: string; sku_id: string; name: string; total_units: number; price: PriceIn; starts_at: string; ends_at?: string | null; per_buyer_limit?: number | null; hold_seconds?: number; max_hold_seconds?: number | null; hold_budget?: number | null; checkout?: Checkout; payment: PaymentKind; oversell_policy?: OversellPolicy; review_above_percent?: number; buffer_units?: number; required_tier?: number | null; payment_attempts_max?: number; after_attempts?: AfterAttempts; units_per_address?: number | null; purchase_attempts_max?: number | null; description?: string | null; image_url?: string | null; checkout_url?: string | null; brand?: BrandIn | null; locale?: string | null; room?: RoomIn; proof_of_work?: ProofOfWorkIn | null; drop_id?: string | null; cell?: string | null; notify?: boolean; }): Call<OperatorSale> {
  return { method: "POST", path: "/v1/sales", answers: { 201: "json", 200: "json" }, body: { sale_id: args.sale_id, sku_id: args.sku_id, name: args.name, total_units: args.total_units, price: args.price, starts_at: args.starts_at, ends_at: args.ends_at, per_buyer_limit: args.per_buyer_limit, hold_seconds: args.hold_seconds, max_hold_seconds: args.max_hold_seconds, hold_budget: args.hold_budget, checkout: args.checkout, payment: args.payment, oversell_policy: args.oversell_policy, review_above_percent: args.review_above_percent, buffer_units: args.buffer_units, required_tier: args.required_tier, payment_attempts_max: args.payment_attempts_max, after_attempts: args.after_attempts, units_per_address: args.units_per_address, purchase_attempts_max: args.purchase_attempts_max, description: args.description, image_url: args.image_url, checkout_url: args.checkout_url, brand: args.brand, locale: args.locale, room: args.room, proof_of_work: args.proof_of_work, drop_id: args.drop_id, cell: args.cell, notify: args.notify }, isRepeatable: true };
}

/** List sales, by ID. */
export function listSales(args: { limit?: number; starting_after?: string; } = {}): Call<SalePage> {
  return { method: "GET", path: "/v1/sales", answers: { 200: "json" }, query: { limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** The public facts of a sale. */
export function getSale(sale_id: string): Call<Sale | OperatorSale> {
  return { method: "GET", path: pathOf("/v1/sales/{sale_id}", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Change a sale. */
export function changeSale(sale_id: string, args: { name?: string; description?: string | null; image_url?: string | null; checkout_url?: string | null; brand?: BrandIn | null; locale?: string | null; price?: PriceIn; starts_at?: string; ends_at?: string | null; per_buyer_limit?: number | null; hold_seconds?: number; max_hold_seconds?: number; hold_budget?: number | null; required_tier?: number | null; units_per_address?: number | null; purchase_attempts_max?: number | null; payment_attempts_max?: number; after_attempts?: AfterAttempts; checkout?: Checkout; payment?: PaymentKind; oversell_policy?: OversellPolicy; review_above_percent?: number; buffer_units?: number; room?: RoomIn; proof_of_work?: ProofOfWorkIn | null; notify?: boolean; } = {}): Call<OperatorSale> {
  return { method: "PATCH", path: pathOf("/v1/sales/{sale_id}", sale_id), answers: { 200: "json" }, body: { name: args.name, description: args.description, image_url: args.image_url, checkout_url: args.checkout_url, brand: args.brand, locale: args.locale, price: args.price, starts_at: args.starts_at, ends_at: args.ends_at, per_buyer_limit: args.per_buyer_limit, hold_seconds: args.hold_seconds, max_hold_seconds: args.max_hold_seconds, hold_budget: args.hold_budget, required_tier: args.required_tier, units_per_address: args.units_per_address, purchase_attempts_max: args.purchase_attempts_max, payment_attempts_max: args.payment_attempts_max, after_attempts: args.after_attempts, checkout: args.checkout, payment: args.payment, oversell_policy: args.oversell_policy, review_above_percent: args.review_above_percent, buffer_units: args.buffer_units, room: args.room, proof_of_work: args.proof_of_work, notify: args.notify }, isRepeatable: true };
}

/** Pause new reservations. */
export function pauseSale(sale_id: string): Call<OperatorSale> {
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/pause", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Resume a paused sale. */
export function resumeSale(sale_id: string): Call<OperatorSale> {
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/resume", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** End a sale now, permanently. */
export function closeSale(sale_id: string): Call<OperatorSale> {
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/close", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Add units, or remove free ones. */
export function restockSale(sale_id: string, args: { units: number; idempotency_key?: string; }): Call<OperatorSale> {
  const key = args.idempotency_key ?? newKey();
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/restock", sale_id), answers: { 200: "json" }, headers: { "Idempotency-Key": key }, body: { units: args.units }, idempotencyKey: key, isRepeatable: true };
}

/** The current state of a sale. */
export function now(sale_id: string): Call<Now> {
  return { method: "GET", path: pathOf("/v1/sales/{sale_id}/now", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** A challenge to solve before joining. */
export function challenge(sale_id: string, args: { level?: number; } = {}): Call<Challenge | null> {
  return { method: "GET", path: pathOf("/v1/sales/{sale_id}/challenge", sale_id), answers: { 200: "json", 204: "nothing" }, query: { level: args.level }, isRepeatable: true };
}
