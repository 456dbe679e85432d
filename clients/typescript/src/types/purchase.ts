// Generated from the endpoint table by `make docs`. Do not edit.

import type { Status } from "./inventory.js";
export interface Purchase {
  reservation_id: string;
  sale_id: string;
  quantity: number;
  status: Status;
  expires_at: string;
  amount: number;
  currency: string;
  /** Proof that this was granted: a JWT that this server can read. */
  receipt: string;
}

export interface Quote {
  quote_id: string;
  sale_id: string;
  quantity: number;
  /** The total price of the purchase, in the smallest unit of `currency`. */
  amount: number;
  currency: string;
  /** One unit of the sale's currency in this one; omitted if they are the same. */
  rate?: string;
  expires_at: string;
}
