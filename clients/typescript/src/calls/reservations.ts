// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { History, PaymentStep, Reservation, ReservationPage, SaleReservation } from "../types.js";

/** List reservations, newest first. */
export function listReservations(args: { sku_id?: string; owner_id?: string; status?: "active" | "cancelled" | "confirmed" | "expired" | "failed" | "settling"; limit?: number; starting_after?: string; } = {}): Call<ReservationPage> {
  return { method: "GET", path: "/v1/reservations", answers: { 200: "json" }, query: { sku_id: args.sku_id, owner_id: args.owner_id, status: args.status, limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** One reservation. */
export function getReservation(reservation_id: string, args: { wait?: number; receipt?: string; } = {}): Call<Reservation | SaleReservation> {
  return { method: "GET", path: pathOf("/v1/reservations/{reservation_id}", reservation_id), answers: { 200: "json" }, query: { wait: args.wait }, headers: { "Holdfast-Receipt": args.receipt }, isRepeatable: true };
}

/** The history of a reservation. */
export function getHistory(reservation_id: string, args: { receipt?: string; } = {}): Call<History> {
  return { method: "GET", path: pathOf("/v1/reservations/{reservation_id}/history", reservation_id), answers: { 200: "json" }, headers: { "Holdfast-Receipt": args.receipt }, isRepeatable: true };
}

/** Mark the units as sold; for a buyer: start to pay. */
export function confirm(reservation_id: string, args: { payment_method?: string | null; receipt?: string; } = {}): Call<Reservation | SaleReservation> {
  return { method: "POST", path: pathOf("/v1/reservations/{reservation_id}/confirm", reservation_id), answers: { 200: "json", 202: "json" }, headers: { "Holdfast-Receipt": args.receipt }, body: { payment_method: args.payment_method }, isRepeatable: true };
}

/** What its payment needs next. */
export function getPayment(reservation_id: string, args: { receipt?: string; } = {}): Call<PaymentStep> {
  return { method: "GET", path: pathOf("/v1/reservations/{reservation_id}/payment", reservation_id), answers: { 200: "json" }, headers: { "Holdfast-Receipt": args.receipt }, isRepeatable: true };
}

/** Check the payment now, after the buyer returned from the bank. */
export function checkPayment(reservation_id: string, args: { receipt?: string; } = {}): Call<null> {
  return { method: "POST", path: pathOf("/v1/reservations/{reservation_id}/payment", reservation_id), answers: { 204: "nothing" }, headers: { "Holdfast-Receipt": args.receipt }, isRepeatable: true };
}

/** Hold the units longer. */
export function extend(reservation_id: string, args: { ttl_seconds: number; receipt?: string; }): Call<Reservation | SaleReservation> {
  return { method: "POST", path: pathOf("/v1/reservations/{reservation_id}/extend", reservation_id), answers: { 200: "json" }, headers: { "Holdfast-Receipt": args.receipt }, body: { ttl_seconds: args.ttl_seconds }, isRepeatable: true };
}

/** Return the units. */
export function cancel(reservation_id: string, args: { receipt?: string; } = {}): Call<null> {
  return { method: "DELETE", path: pathOf("/v1/reservations/{reservation_id}", reservation_id), answers: { 204: "nothing" }, headers: { "Holdfast-Receipt": args.receipt }, isRepeatable: true };
}

/** Stream the events of a reservation. */
export function events(reservation_id: string, args: { last_event_id?: string; receipt?: string; } = {}): Call<never> {
  return { method: "GET", path: pathOf("/v1/reservations/{reservation_id}/events", reservation_id), answers: { 200: "events", 204: "nothing" }, headers: { "Last-Event-ID": args.last_event_id, "Holdfast-Receipt": args.receipt }, isRepeatable: true };
}
