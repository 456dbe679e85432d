// Generated from the endpoint table by `make docs`. Do not edit.

import type { Scope } from "./operate_2.js";
export type Role = "admin" | "finance" | "seller" | "support" | "viewer";

export interface Operator {
  operator_id: string;
  email: string;
  name: string;
  role: Role;
  scopes: Scope[];
  created_at: string;
  /** Who invited them. */
  created_by: string | null;
  /** Null until they first signed in. */
  joined_at: string | null;
  disabled_at: string | null;
  /** The expiry of an unused invitation. */
  invitation_expires_at: string | null;
}

export interface OperatorList {
  data: Operator[];
}

export interface Invited {
  operator_id: string;
  email: string;
  name: string;
  role: Role;
  scopes: Scope[];
  created_at: string;
  /** Who invited them. */
  created_by: string | null;
  /** Null until they first signed in. */
  joined_at: string | null;
  disabled_at: string | null;
  /** The expiry of an unused invitation. */
  invitation_expires_at: string | null;
  /** Send it to the operator. Shown only once; it works once. */
  link: string;
}

export interface ConsoleSession {
  session_id: string;
  operator_id: string | null;
  /** The service key that started the session. */
  key_id: string | null;
  /** The operator's or the key's; null for the admin key. */
  name: string | null;
  /** `key`, `invitation`, `password` or `oidc`. */
  method: string;
  created_at: string;
  expires_at: string;
  /** Whether this request used it. */
  is_current: boolean;
}

export interface ConsoleSessionList {
  data: ConsoleSession[];
}

export interface Action {
  seq: number;
  action_id: string;
  at: string;
  /** Null for keys. */
  operator_id: string | null;
  /** The operator's name, or which key it was. */
  operator: string;
  /** The operation, as in `close_sale`. */
  action: string;
  subject: string | null;
  /** What was sent. */
  request: unknown;
  /** The subject's rows before, without secrets and buyers. */
  before: unknown;
  after: unknown;
  /** The status of the response; null if it was interrupted. */
  status: number | null;
  /** Why it was refused. */
  reason: string | null;
  request_id: string | null;
  /** The ID of the request's trace, if it was traced. */
  trace_id: string | null;
}

export interface ActionPage {
  data: Action[];
  has_more: boolean;
}

export type ApprovalState = "approved" | "expired" | "pending" | "rejected";

export interface Approval {
  approval_id: string;
  /** The operation, as in `close_sale`. */
  action: string;
  /** As in `sale:lamp`. */
  subject: string | null;
  /** The request body; null once it is decided or has expired. */
  request: unknown;
  /** Null for a key that no operator made. */
  requested_by_id: string | null;
  requested_by: string;
  requested_at: string;
  expires_at: string;
  state: ApprovalState;
  /** While pending: the first of two approvers. */
  decided_by: string | null;
  decided_at: string | null;
  /** The response's status once carried out. Null although approved: unknown; approve again. */
  status: number | null;
  /** Why carrying it out was refused. */
  reason: string | null;
}

export interface ApprovalList {
  data: Approval[];
}

export interface SignInOptions {
  /** Whether anybody was invited. */
  password: boolean;
  /** Whether there is an issuer to sign in with. */
  oidc: boolean;
}

export interface Session {
  /** Null for the admin key. */
  key_id: string | null;
  name: string | null;
  scopes: Scope[];
  /** Null if a service key was sent instead. */
  expires_at: string | null;
  /** Null for keys. */
  operator_id?: string | null;
  role?: Role | null;
}
