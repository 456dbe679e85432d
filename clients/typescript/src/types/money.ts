// Generated from the endpoint table by `make docs`. Do not edit.

import type { PaymentKind } from "./sales.js";
export type OrderStatus = "cancelled" | "confirmed" | "refunded";

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
  /** Who moved the money; `external` where a service key confirmed. */
  payment: PaymentKind;
  /** Units of it that were sold and are missing from the stock. */
  units_to_source: number;
}

export interface OrderPage {
  data: Order[];
  has_more: boolean;
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
