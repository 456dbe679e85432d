// Generated from the endpoint table by `make docs`. Do not edit.

import type { Price, Room } from "./sales.js";
/** One of its sales, as everyone may see it. */
export interface DropSale {
  sale_id: string;
  sku_id: string;
  name: string;
  image_url: string | null;
  price: Price;
  starts_at: string;
  per_buyer_limit: number | null;
}

export interface Drop {
  drop_id: string;
  name: string;
  starts_at: string;
  per_buyer_limit: number | null;
  room: Room;
  /** In the order in which they were created. */
  sales: DropSale[];
  created_at: string;
  updated_at: string;
}

export interface DropPage {
  data: Drop[];
  has_more: boolean;
}
