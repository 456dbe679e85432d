// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, newKey, pathOf } from "../call.js";
import type { Balance, Order, OrderPage, Refund, Wallet } from "../types.js";

/** List orders, newest first. */
export function listOrders(args: { buyer_id?: string; sale_id?: string; status?: "cancelled" | "confirmed" | "fulfilled" | "pending" | "refunded"; number?: string; to_source?: boolean; limit?: number; starting_after?: string; } = {}): Call<OrderPage> {
  return { method: "GET", path: "/v1/orders", answers: { 200: "json" }, query: { buyer_id: args.buyer_id, sale_id: args.sale_id, status: args.status, number: args.number, to_source: args.to_source, limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** One order. */
export function getOrder(order_id: string): Call<Order> {
  return { method: "GET", path: pathOf("/v1/orders/{order_id}", order_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Mark a paid order as sent to its buyer. */
export function fulfilOrder(order_id: string, args: { tracking?: string | null; idempotency_key?: string; } = {}): Call<Order> {
  const key = args.idempotency_key ?? newKey();
  return { method: "POST", path: pathOf("/v1/orders/{order_id}/fulfil", order_id), answers: { 200: "json" }, headers: { "Idempotency-Key": key }, body: { tracking: args.tracking }, idempotencyKey: key, isRepeatable: true };
}

/** Refund an order, or part of it. */
export function refundOrder(order_id: string, args: { amount?: number | null; restock?: boolean; reason?: string | null; idempotency_key?: string; } = {}): Call<Refund> {
  const key = args.idempotency_key ?? newKey();
  return { method: "POST", path: pathOf("/v1/orders/{order_id}/refund", order_id), answers: { 200: "json" }, headers: { "Idempotency-Key": key }, body: { amount: args.amount, restock: args.restock, reason: args.reason }, idempotencyKey: key, isRepeatable: true };
}

/** Add money to a buyer's wallet. */
export function creditWallet(buyer_id: string, args: { amount: number; currency: string; idempotency_key?: string; cell?: string | null; }): Call<Balance> {
  const key = args.idempotency_key ?? newKey();
  return { method: "POST", path: pathOf("/v1/wallets/{buyer_id}/credit", buyer_id), answers: { 200: "json" }, body: { amount: args.amount, currency: args.currency, idempotency_key: key, cell: args.cell }, idempotencyKey: key, isRepeatable: true };
}

/** A buyer's balances. */
export function getWallet(buyer_id: string): Call<Wallet> {
  return { method: "GET", path: pathOf("/v1/wallets/{buyer_id}", buyer_id), answers: { 200: "json" }, isRepeatable: true };
}
