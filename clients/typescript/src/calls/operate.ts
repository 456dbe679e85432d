// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { Compensation, Features, FullReconciliation, Funnel, Health, Lags, Live, NewServiceKey, ParkedPage, Pools, Ready, Retried, SaleHistory, Scope, ServiceKeyList, SystemHealth, Timeline } from "../types.js";

/** The process runs. */
export function live(): Call<Health> {
  return { method: "GET", path: "/healthz/live", answers: { 200: "json" }, isRepeatable: true };
}

/** Readiness: can sales be served?. */
export function ready(): Call<Ready> {
  return { method: "GET", path: "/healthz/ready", answers: { 200: "json" }, isRepeatable: true };
}

/** Metrics for Prometheus. */
export function metrics(): Call<string> {
  return { method: "GET", path: "/metrics", answers: { 200: "text" }, isRepeatable: true };
}

/** What is on, and what is off right now. */
export function getFeatures(): Call<Features> {
  return { method: "GET", path: "/v1/features", answers: { 200: "json" }, isRepeatable: true };
}

/** How far background work is behind. */
export function getLag(): Call<Lags> {
  return { method: "GET", path: "/v1/ops/lag", answers: { 200: "json" }, isRepeatable: true };
}

/** Consistency of every pool, within itself and between gate and ledger. */
export function getPools(): Call<Pools> {
  return { method: "GET", path: "/v1/ops/pools", answers: { 200: "json" }, isRepeatable: true };
}

/** Check every pool and every payment now. */
export function reconcile(): Call<FullReconciliation> {
  return { method: "POST", path: "/v1/ops/reconcile", answers: { 200: "json" }, isRepeatable: true };
}

/** What needs attention, and why. */
export function listParked(args: { kind?: "delivery" | "journal" | "message" | "refund" | "settlement"; limit?: number; starting_after?: string; } = {}): Call<ParkedPage> {
  return { method: "GET", path: "/v1/ops/parked", answers: { 200: "json" }, query: { kind: args.kind, limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** Retry everything of a kind. */
export function retryAllParked(args: { kind: "delivery" | "journal" | "message" | "refund" | "settlement"; }): Call<Retried> {
  return { method: "POST", path: "/v1/ops/parked/retry", answers: { 200: "json" }, body: { kind: args.kind }, isRepeatable: true };
}

/** Retry an item from its current step. */
export function retryParked(parked_id: string): Call<null> {
  return { method: "POST", path: pathOf("/v1/ops/parked/{parked_id}/retry", parked_id), answers: { 204: "nothing" }, isRepeatable: true };
}

/** Discard an item, if no money was taken. */
export function dropParked(parked_id: string): Call<null> {
  return { method: "POST", path: pathOf("/v1/ops/parked/{parked_id}/drop", parked_id), answers: { 204: "nothing" }, isRepeatable: true };
}

/** Report that more was sold than can be delivered, and apply the sale's policy. */
export function compensate(sale_id: string, args: { deliverable_units: number | null; approved?: boolean; }): Call<Compensation> {
  return { method: "POST", path: pathOf("/v1/ops/sales/{sale_id}/compensate", sale_id), answers: { 200: "json" }, body: { deliverable_units: args.deliverable_units, approved: args.approved }, isRepeatable: true };
}

/** What happened to a buyer, refusals included. */
export function getAudit(args: { buyer_id: string; sale_id?: string; sku_id?: string; since?: string; until?: string; limit?: number; }): Call<Timeline> {
  return { method: "GET", path: "/v1/ops/audit", answers: { 200: "json" }, query: { buyer_id: args.buyer_id, sale_id: args.sale_id, sku_id: args.sku_id, since: args.since, until: args.until, limit: args.limit }, isRepeatable: true };
}

/** Live figures of a sale, to poll every second. */
export function getLive(sale_id: string): Call<Live> {
  return { method: "GET", path: pathOf("/v1/ops/sales/{sale_id}/live", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** The history of a sale: its counts, and operators' actions. */
export function getSaleHistory(sale_id: string, args: { window_seconds?: number; } = {}): Call<SaleHistory> {
  return { method: "GET", path: pathOf("/v1/ops/sales/{sale_id}/history", sale_id), answers: { 200: "json" }, query: { window_seconds: args.window_seconds }, isRepeatable: true };
}

/** The conversion funnel of a sale, and why visitors were refused. */
export function getFunnel(sale_id: string): Call<Funnel> {
  return { method: "GET", path: pathOf("/v1/ops/sales/{sale_id}/funnel", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** The state of each dependency. */
export function getHealth(): Call<SystemHealth> {
  return { method: "GET", path: "/v1/ops/health", answers: { 200: "json" }, isRepeatable: true };
}

/** List service keys, revoked ones included. */
export function listKeys(): Call<ServiceKeyList> {
  return { method: "GET", path: "/v1/ops/keys", answers: { 200: "json" }, isRepeatable: true };
}

/** Create a service key. */
export function createKey(args: { name: string; scopes: Scope[]; }): Call<NewServiceKey> {
  return { method: "POST", path: "/v1/ops/keys", answers: { 201: "json" }, body: { name: args.name, scopes: args.scopes }, isRepeatable: false };
}

/** Revoke a service key. */
export function revokeKey(key_id: string): Call<null> {
  return { method: "DELETE", path: pathOf("/v1/ops/keys/{key_id}", key_id), answers: { 204: "nothing" }, isRepeatable: true };
}
