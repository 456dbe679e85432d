// Generated from the endpoint table by `make docs`. Do not edit.

import type { Lottery, OversellPolicy, RoomMode } from "./sales.js";
import type { Pace } from "./room.js";
export interface Health {
  status: string;
}

export interface Check {
  ok: boolean;
  /** Since it last passed. */
  age_ms: number;
  /** Why it fails. */
  reason?: string | null;
  /** The affected items. */
  pools?: string[];
}

export interface Ready {
  /** `ready`, or `degraded` if some check fails but sales continue. */
  status: string;
  /** What the server can do (`selling`, `settling`, `joining`), its stores, background work. */
  checks: Record<string, Check>;
  /** Features that are off under load. */
  degraded_features: string[];
  /** Dependencies that are unavailable. */
  unavailable_dependencies: string[];
}

export interface Feature {
  enabled: boolean;
  /** Why it is off: `overload`, `host`, `lag`, or a check's. */
  reason?: string | null;
}

export interface Features {
  /** `selling`, `settling` and `joining`, and features that are turned off under load. */
  features: Record<string, Feature>;
  /** The features that are off. */
  degraded_features: string[];
}

export interface Lag {
  items: number;
  /** The age of the oldest item. */
  seconds: number;
}

export interface Lags {
  as_of: string;
  /** Decisions in Redis that the ledger does not have yet. */
  journal: Lag;
  /** Reservations whose payment is not settled. */
  settlement: Lag;
  /** Events and deliveries that were not sent. */
  webhooks: Lag;
  /** Holds past their deadline whose units are not back. */
  sweeper: Lag;
  /** Events that were not published to Kafka. */
  streams: Lag;
}

export interface ShardReport {
  finding: string | null;
  total_units: number;
  available: number;
  held: number;
  sold: number;
  epoch: number;
  /** Journal entries that the ledger does not have yet. */
  journal_lag: number;
  shard: number;
}

/** How a pool stands with the gate and the ledger. */
export interface PoolReport {
  finding: string | null;
  total_units: number;
  available: number;
  held: number;
  sold: number;
  epoch: number;
  /** Journal entries that the ledger does not have yet. */
  journal_lag: number;
  sku_id: string;
  ok: boolean;
  checked_at: string;
  /** Units in transfer between the shards of a pool that is split. */
  in_transfer: number;
  /** The shards of a split pool; else empty. */
  shards: ShardReport[];
}

export interface Pools {
  ok: boolean;
  data: PoolReport[];
  /** Recently refused because another process or an operator holds their lock. */
  locked_pools: string[];
}

export interface PaymentFinding {
  finding: string;
  subject: string;
  detail: string;
  /** Whether it is being repaired, or waits for a person. */
  repairing: boolean;
}

export interface PaymentReport {
  ok: boolean;
  checked_at: string;
  findings: PaymentFinding[];
  parked: Record<string, number>;
}

export interface FullReconciliation {
  ok: boolean;
  data: PoolReport[];
  payments: PaymentReport;
}

export interface Tried {
  at: string;
  step: string;
  error: string;
}

export interface Parked {
  parked_id: string;
  kind: string;
  reason: string | null;
  attempts: number;
  created_at: string;
  history: Tried[];
}

export interface ParkedPage {
  data: Parked[];
  has_more: boolean;
}

export interface Retried {
  retried: number;
}

export interface Compensation {
  sale_id: string;
  policy: OversellPolicy;
  sold_units: number;
  deliverable_units: number;
  /** Orders cancelled and refunded now, newest first. */
  cancelled: string[];
  /** Units sold that have to be sourced. */
  shortfall_units: number;
  /** Units to source, by order. */
  to_source: Record<string, number>;
  /** Too much to cancel without `approved`: nothing was cancelled. */
  needs_review?: boolean;
}

export interface Moment {
  at: string;
  type: string;
  what: string;
  sku_id: string;
  sale_id: string | null;
  quantity: number | null;
  reservation_id: string | null;
  outcome: string | null;
  available: number | null;
  next_return_at: string | null;
  request_id: string | null;
  /** The ID of the request's trace, if it was traced. */
  trace_id: string | null;
}

export interface Timeline {
  buyer_id: string;
  refusals: Record<string, number>;
  data: Moment[];
  unreadable_segments: string[];
  /** One sentence: why the buyer got none, or what they got. */
  summary: string;
  /** Requests of all buyers that were shed in this time, by reason. They are only counted. */
  shed: Record<string, number>;
}

/** `total = available + held + settling + sold`. */
export interface Stock {
  total: number;
  available: number;
  /** In carts: active reservations. */
  held: number;
  /** Being paid for, parked ones included. */
  settling: number;
  sold: number;
}

/** Of the pool, since it was made, by all server processes. */
export interface Attempts {
  total: number;
  granted: number;
  /** Repeats of a first result under the same idempotency key. */
  repeated: number;
  /** By outcome. */
  refused: Record<string, number>;
}

export interface Returned {
  expired: number;
  cancelled: number;
  failed: number;
}

/** From a command's arrival at the gate until its answer is on disk; over about the last ten seconds. */
export interface AnswerTimes {
  p50: number | null;
  p99: number | null;
  answers: number;
}

export interface Settlement {
  open: number;
  oldest_s: number;
}

/** In order of precedence. */
export type Pacing = "gate_slow" | "line_empty" | "not_open" | "paused" | "recovering" | "settlement_slow" | "stock" | "target";

export interface LiveRoom {
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
  /** Called and expected, or with a pass that is neither used nor lapsed. */
  inside: number;
  /** What sets the pace of the line. */
  why: Pacing;
}

export interface Drift {
  ok: boolean;
  finding: string | null;
  checked_at: string;
  journal_lag: number;
  units_apart: number;
}

/** By the whole server, before anything was decided. */
export interface TurnedAway {
  shed: number;
  limited: number;
}

export interface Load {
  unavailable_dependencies: string[];
  degraded_features: string[];
  agents_ended: string[];
  /** The readiness checks that fail, each with its reason. */
  failed_checks: Record<string, string>;
  in_flight: number;
  in_flight_max: number;
}
