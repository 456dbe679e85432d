// Generated from the endpoint table by `make docs`. Do not edit.

export interface Contact {
  buyer_id: string;
  email: string | null;
  locale: string | null;
  next_sale: boolean;
  /** How many browsers get notifications. */
  devices: number;
  created_at: string;
  updated_at: string;
}

export interface PushKeys {
  p256dh: string;
  auth: string;
}

/** A browser's `PushSubscription`, as its `toJSON()` gives it. */
export interface PushSubscription {
  /** A URL of the push service. */
  endpoint: string;
  keys: PushKeys;
  /** Ignored. */
  expirationTime?: number | null;
}

export interface Message {
  message_id: string;
  buyer_id: string;
  sale_id: string;
  kind: string;
  channel: string;
  /** `unknown`: sent, but the reply was lost; `dropped`: no longer wanted, see `reason`. */
  state: "dropped" | "failed" | "sending" | "sent" | "unknown" | "waiting";
  attempts: number;
  reason: string | null;
  created_at: string;
  due_at: string;
  done_at: string | null;
}

export interface MessagePage {
  data: Message[];
  has_more: boolean;
}
