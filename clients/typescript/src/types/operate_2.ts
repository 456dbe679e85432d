// Generated from the endpoint table by `make docs`. Do not edit.

import type { AnswerTimes, Attempts, Drift, LiveRoom, Load, Returned, Settlement, Stock, TurnedAway } from "./operate.js";
import type { OperatorSale } from "./sales.js";
export interface Live {
  /** When the figures were read, by the engine's clock. */
  as_of: string;
  sale: OperatorSale;
  stock: Stock | null;
  next_return_at: string | null;
  attempts: Attempts;
  returned_units: Returned;
  answer_ms: AnswerTimes;
  settlement: Settlement;
  room: LiveRoom | null;
  /** By kind, of all sales. */
  parked: Record<string, number>;
  /** Null where this process does no background work. */
  drift: Drift | null;
  turned_away: TurnedAway;
  health: Load;
}

export interface HistoryRoom {
  joined: number;
  serving: number;
  inside: number;
}

/** Counts of a span of time, and the highest levels in it. A span in which nothing happened is left out. */
export interface HistoryPoint {
  /** The start of the span. */
  at: string;
  /** The length of the span. */
  seconds: number;
  attempts: Attempts;
  returned_units: Returned;
  turned_away: TurnedAway;
  answer_ms: AnswerTimes;
  room: HistoryRoom | null;
  settlement: Settlement;
}

export interface SaleMark {
  at: string;
  /** `opened`, `closed`, `paused`, `resumed`, `restocked`, `changed`, `rate_changed`, `line_paused`, `line_resumed` or `admitted`. */
  kind: string;
  /** The operator or key; null: by schedule, or from the command line. */
  by: string | null;
  detail: string | null;
}

export interface SaleHistory {
  sale_id: string;
  as_of: string;
  since: string;
  /** The length of a span, unless it has its own. */
  seconds: number;
  points: HistoryPoint[];
  /** Operators' actions on the sale. */
  marks: SaleMark[];
}

export interface FunnelStep {
  /** `view`, `join`, `pass`, `attempt` or `pay`. */
  step: string;
  /** How often, signed in or not. */
  clicks: number;
  /** Signed-in visitors who reached this step or a later one. */
  people: number;
  /** Visitors who stopped at this step. */
  stopped: number;
}

export interface FunnelRefusal {
  step: string;
  reason: string;
  clicks: number;
  people: number;
}

export interface Funnel {
  sale_id: string;
  /** Whether this host keeps files of the click stream. */
  enabled: boolean;
  steps: FunnelStep[];
  /** The most frequent ones, with the refused step. */
  refusals: FunnelRefusal[];
}

export interface Dependency {
  name: string;
  /** `capability`, `store`, `gate`, `payment` or `agent`. */
  kind: string;
  ok: boolean;
  detail: string;
  /** Since it was last known to work. */
  age_ms?: number | null;
}

/** Of the process that answers; others may see it differently. */
export interface SystemHealth {
  ok: boolean;
  version: string;
  data: Dependency[];
  load: Load;
  /** By kind; empty if the store cannot be read. */
  parked: Record<string, number>;
}

export type Scope = "admin" | "inventory" | "money" | "operate" | "read" | "sales";

export interface ServiceKey {
  key_id: string;
  name: string;
  scopes: Scope[];
  created_at: string;
  revoked_at: string | null;
  /** The key that created it; revoking it revokes this one. */
  created_by: string | null;
}

export interface ServiceKeyList {
  data: ServiceKey[];
}

export interface NewServiceKey {
  key_id: string;
  name: string;
  scopes: Scope[];
  created_at: string;
  revoked_at: string | null;
  /** The key that created it; revoking it revokes this one. */
  created_by: string | null;
  /** The key itself. Shown only once. */
  key: string;
}
