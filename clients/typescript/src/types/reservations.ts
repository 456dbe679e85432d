// Generated from the endpoint table by `make docs`. Do not edit.

import type { QuotedPrice } from "./room.js";
import type { Reservation, Status } from "./inventory.js";
export interface ReservationPage {
  data: Reservation[];
  has_more: boolean;
  /** Cells that did not answer in time; the list lacks their items. */
  unavailable_cells?: string[];
}

export interface Decline {
  /** Why: insufficient_funds, card_declined, … */
  code: string | null;
  at: string;
}

/** A reservation in a sale. */
export interface SaleReservation {
  reservation_id: string;
  sku_id: string;
  owner_id: string;
  quantity: number;
  status: Status;
  created_at: string;
  expires_at: string;
  confirmed_at: string | null;
  sale_id: string;
  /** The total price, in the currency's smallest unit. */
  amount: number;
  currency: string;
  /** The quote it was made with, if there was one. */
  quote?: QuotedPrice;
  /** How often the buyer may still start a payment; omitted for external payment. */
  attempts_left?: number;
  /** The last declined payment, or null. Only in GET of one reservation. */
  last_decline?: Decline | null;
  /** Why the payment was refused, if it failed: insufficient_funds, card_declined, … */
  failure_reason?: string | null;
}

export interface Event {
  type: string;
  at: string;
  quantity: number | null;
  expires_at: string | null;
  /** Why the payment was refused: insufficient_funds, … */
  failure_reason?: string;
}

export interface History {
  events: Event[];
  /** The trace of its last traced request. */
  trace_id?: string | null;
}

export type PaymentPhase = "action_required" | "none" | "processing";

/** What the payment in progress needs next. */
export interface PaymentStep {
  /** `action_required`: the buyer must authenticate. `none`: no payment in progress. */
  status: PaymentPhase;
  /** Stripe: for `stripe.handleNextAction` in the buyer's browser. */
  client_secret?: string | null;
  /** Sandbox: the page where the buyer answers the bank. */
  url?: string | null;
}
