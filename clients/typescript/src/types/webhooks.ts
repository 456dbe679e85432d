// Generated from the endpoint table by `make docs`. Do not edit.

export interface NewWebhook {
  webhook_id: string;
  url: string;
  events: string[];
  description: string | null;
  enabled: boolean;
  /** Also set if the receiver answered 410 Gone. */
  disabled_at: string | null;
  created_at: string;
  /** Signs every delivery. Shown only once. */
  secret: string;
}

export interface Webhook {
  webhook_id: string;
  url: string;
  events: string[];
  description: string | null;
  enabled: boolean;
  /** Also set if the receiver answered 410 Gone. */
  disabled_at: string | null;
  created_at: string;
}

export interface WebhookList {
  data: Webhook[];
}

export interface Attempt {
  at: string;
  ms: number;
  status: number | null;
  error: string | null;
}

export interface Delivery {
  /** Sent as `webhook-id`, the same at every attempt. */
  delivery_id: string;
  type: string;
  subject: string;
  state: "done" | "dropped" | "parked" | "waiting";
  attempts: number;
  last_status: number | null;
  reason: string | null;
  due_at: string;
  created_at: string;
  done_at: string | null;
  history: Attempt[];
  /** The request body. */
  event: Record<string, unknown>;
}

export interface DeliveryPage {
  data: Delivery[];
  has_more: boolean;
}

export interface Replay {
  replayed: number;
}

export interface Sent {
  delivery_id: string;
}
