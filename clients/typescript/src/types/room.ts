// Generated from the endpoint table by `make docs`. Do not edit.

import type { Lottery, PaymentKind, RoomMode } from "./sales.js";
import type { Reservation } from "./inventory.js";
export interface Place {
  ticket: string;
  /** From 1. It is your turn when position ≤ serving. Null before a draw. */
  position: number | null;
  /** How many places have been called. */
  serving: number;
  /** People before you who have not been called. Null before a draw. */
  ahead: number | null;
  /** Null while it is unknown, or while forecasts are degraded. */
  eta_seconds: number | null;
  /** The chance that something is left when it is your turn, from 0 to 1. Null until it is known what ten people before did, and while degraded. */
  odds: number | null;
  /** Whether the chance is below 1 %. You may stay in line. */
  likely_sold_out: boolean;
  /** `odds` while the server is under pressure and makes no forecasts. */
  degraded_features: string[];
  /** The ticket is a signed stamp of your arrival: your place follows from it once arrivals are merged in order. Ask for your status with it. */
  provisional?: boolean;
}

export interface Pass {
  /** A JWT, to be sent as `Holdfast-Pass` with the purchase. */
  pass: string;
  expires_at: string;
}

export interface Wait {
  position: number | null;
  serving: number;
  retry_after_ms: number;
}

export type OrderStatus = "cancelled" | "confirmed" | "fulfilled" | "pending" | "refunded";

/** The quote that something was bought at. */
export interface QuotedPrice {
  quote_id: string;
  amount: number;
  currency: string;
  /** The price in the sale's own currency. */
  base_amount: number;
  base_currency: string;
  /** Null if the currency is the sale's own. */
  rate: string | null;
  quoted_at: string;
}

export interface Order {
  order_id: string;
  reservation_id: string;
  sale_id: string;
  buyer_id: string;
  quantity: number;
  amount: number;
  currency: string;
  status: OrderStatus;
  refunded_amount: number;
  created_at: string;
  updated_at: string;
  /** When it was paid. */
  confirmed_at: string | null;
  /** Short and readable, for people. */
  number: string;
  unit_price: number;
  /** The tracking number, once it is fulfilled. */
  tracking: string | null;
  /** The provider; `external` if a service key confirmed. */
  payment: PaymentKind;
  /** Units of this order that are missing from the stock. */
  units_to_source: number;
  /** The quote it was bought at, if there was one. */
  quote: QuotedPrice | null;
}

export interface Mine {
  /** While you are in line, or have a pass. */
  place?: Place;
  /** While it is valid. */
  pass?: Pass;
  /** In this sale, newest first, at most 100. */
  reservations?: Reservation[];
  /** In this sale, newest first, at most 100. */
  orders?: Order[];
}

export interface Pace {
  rate_per_second: number;
  speed_per_second: number;
  /** The share of called people who request their pass. */
  shows: number;
  /** The share of passes that are used. */
  buys: number;
  units_each: number;
  gate_latency_ms: number;
  settlement_lag_ms: number;
  available: number;
}

export interface RoomFacts {
  sale_id: string;
  mode: RoomMode;
  opened_at: string | null;
  joined: number;
  serving: number;
  waiting: number;
  /** Recently called, without a pass yet. */
  called: number;
  /** Issued, neither used nor expired. */
  passes: number;
  rate_per_second: number;
  paused: boolean;
  admitting: number;
  passes_given: number;
  passes_used: number;
  passes_lapsed: number;
  calls_lapsed: number;
  units_taken: number;
  pace: Pace | null;
  lottery: Lottery;
}

export interface Key {
  kty: string;
  crv: string;
  x: string;
  kid: string;
  alg: string;
  use: string;
}

export interface Jwks {
  keys: Key[];
}
