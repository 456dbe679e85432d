// Generated from the endpoint table by `make docs`. Do not edit.

export type Availability = "all_held" | "available" | "sold_out";

export interface Pool {
  sku_id: string;
  available: number;
  active_reservations: number;
  held: number;
  sold: number;
  total_units: number;
  per_owner_limit: number | null;
  state: Availability;
  /** If all units are held, the earliest deadline. Not in responses to PUT. */
  next_return_at: string | null;
}

export type Status = "active" | "cancelled" | "confirmed" | "expired" | "failed" | "settling";

export interface Reservation {
  reservation_id: string;
  sku_id: string;
  owner_id: string;
  quantity: number;
  status: Status;
  created_at: string;
  expires_at: string;
  confirmed_at: string | null;
}
