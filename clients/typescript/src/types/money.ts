// Generated from the endpoint table by `make docs`. Do not edit.

import type { Order } from "./room.js";
export interface OrderPage {
  data: Order[];
  has_more: boolean;
  /** Cells that did not answer in time; the list lacks their items. */
  unavailable_cells?: string[];
}

export interface Refund {
  refund_id: string;
  order_id: string | null;
  amount: number;
  currency: string;
  restock_units: number;
  /** `done`, `waiting` (the provider is being asked) or `parked` (needs attention). */
  status: string;
  created_at: string;
  reason?: string | null;
}

export interface Balance {
  buyer_id: string;
  balance: number;
  currency: string;
}

/** `balance` and `currency` are those of the first, for buyers who have one currency only. */
export interface Wallet {
  buyer_id: string;
  balance: number;
  currency: string | null;
  balances: Balance[];
}
