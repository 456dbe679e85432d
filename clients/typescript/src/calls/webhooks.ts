// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { DeliveryPage, NewWebhook, Replay, Sent, Webhook, WebhookList } from "../types.js";

/** Create a webhook. */
export function createWebhook(args: { url: string; events: ("*" | "order.*" | "order.cancelled" | "order.confirmed" | "order.fulfilled" | "order.pending" | "order.refunded" | "payment.*" | "payment.declined" | "pool.*" | "pool.drift" | "pool.returned" | "pool.sold_out" | "pool.updated" | "reservation.*" | "reservation.cancelled" | "reservation.confirmed" | "reservation.created" | "reservation.expired" | "reservation.extended" | "reservation.failed" | "reservation.reopened" | "reservation.settling" | "sale.*" | "sale.closed" | "sale.opened")[]; description?: string | null; }): Call<NewWebhook> {
  return { method: "POST", path: "/v1/webhooks", answers: { 201: "json" }, body: { url: args.url, events: args.events, description: args.description }, isRepeatable: false };
}

/** List webhooks. */
export function listWebhooks(): Call<WebhookList> {
  return { method: "GET", path: "/v1/webhooks", answers: { 200: "json" }, isRepeatable: true };
}

/** One webhook. */
export function getWebhook(webhook_id: string): Call<Webhook> {
  return { method: "GET", path: pathOf("/v1/webhooks/{webhook_id}", webhook_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Change, disable or enable a webhook. */
export function changeWebhook(webhook_id: string, args: { url?: string; events?: ("*" | "order.*" | "order.cancelled" | "order.confirmed" | "order.fulfilled" | "order.pending" | "order.refunded" | "payment.*" | "payment.declined" | "pool.*" | "pool.drift" | "pool.returned" | "pool.sold_out" | "pool.updated" | "reservation.*" | "reservation.cancelled" | "reservation.confirmed" | "reservation.created" | "reservation.expired" | "reservation.extended" | "reservation.failed" | "reservation.reopened" | "reservation.settling" | "sale.*" | "sale.closed" | "sale.opened")[]; description?: string | null; enabled?: boolean; } = {}): Call<Webhook> {
  return { method: "PATCH", path: pathOf("/v1/webhooks/{webhook_id}", webhook_id), answers: { 200: "json" }, body: { url: args.url, events: args.events, description: args.description, enabled: args.enabled }, isRepeatable: true };
}

/** Remove a webhook and its deliveries. */
export function deleteWebhook(webhook_id: string): Call<null> {
  return { method: "DELETE", path: pathOf("/v1/webhooks/{webhook_id}", webhook_id), answers: { 204: "nothing" }, isRepeatable: true };
}

/** A new secret. */
export function rotateSecret(webhook_id: string): Call<NewWebhook> {
  return { method: "POST", path: pathOf("/v1/webhooks/{webhook_id}/rotate-secret", webhook_id), answers: { 200: "json" }, isRepeatable: false };
}

/** List deliveries, newest first. */
export function listDeliveries(webhook_id: string, args: { state?: "done" | "dropped" | "parked" | "waiting"; limit?: number; starting_after?: string; } = {}): Call<DeliveryPage> {
  return { method: "GET", path: pathOf("/v1/webhooks/{webhook_id}/deliveries", webhook_id), answers: { 200: "json" }, query: { state: args.state, limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** Send again. */
export function replay(webhook_id: string, args: { since?: string | null; delivery_id?: string | null; } = {}): Call<Replay> {
  return { method: "POST", path: pathOf("/v1/webhooks/{webhook_id}/replay", webhook_id), answers: { 200: "json" }, body: { since: args.since, delivery_id: args.delivery_id }, isRepeatable: true };
}

/** Send a test event. */
export function sendTest(webhook_id: string): Call<Sent> {
  return { method: "POST", path: pathOf("/v1/webhooks/{webhook_id}/test", webhook_id), answers: { 200: "json" }, isRepeatable: false };
}
