// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { ActionPage, Approval, ApprovalList, ConsoleSessionList, Invited, Operator, OperatorList, Role, Session, SignInOptions } from "../types.js";

/** List operators, disabled ones included. */
export function listOperators(): Call<OperatorList> {
  return { method: "GET", path: "/v1/ops/operators", answers: { 200: "json" }, isRepeatable: true };
}

/** Invite an operator. */
export function inviteOperator(args: { email: string; name: string; role: Role; }): Call<Invited> {
  return { method: "POST", path: "/v1/ops/operators", answers: { 201: "json" }, body: { email: args.email, name: args.name, role: args.role }, isRepeatable: true };
}

/** Disable an operator. */
export function disableOperator(operator_id: string): Call<Operator> {
  return { method: "POST", path: pathOf("/v1/ops/operators/{operator_id}/disable", operator_id), answers: { 200: "json" }, isRepeatable: true };
}

/** List console sessions. */
export function listSessions(): Call<ConsoleSessionList> {
  return { method: "GET", path: "/v1/ops/sessions", answers: { 200: "json" }, isRepeatable: true };
}

/** End a console session. */
export function revokeSession(session_id: string): Call<null> {
  return { method: "DELETE", path: pathOf("/v1/ops/sessions/{session_id}", session_id), answers: { 204: "nothing" }, isRepeatable: true };
}

/** List operators' actions, newest first. */
export function listActions(args: { operator_id?: string; subject?: string; limit?: number; starting_after?: string; } = {}): Call<ActionPage> {
  return { method: "GET", path: "/v1/ops/actions", answers: { 200: "json" }, query: { operator_id: args.operator_id, subject: args.subject, limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** List requests that wait for a second operator, newest first. */
export function listApprovals(args: { state?: "approved" | "expired" | "pending" | "rejected"; limit?: number; } = {}): Call<ApprovalList> {
  return { method: "GET", path: "/v1/ops/approvals", answers: { 200: "json" }, query: { state: args.state, limit: args.limit }, isRepeatable: true };
}

/** Approve what another operator asked for, and carry it out. */
export function approveRequest(approval_id: string): Call<Approval> {
  return { method: "POST", path: pathOf("/v1/ops/approvals/{approval_id}/approve", approval_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Reject what another operator asked for, or withdraw your own request. */
export function rejectRequest(approval_id: string): Call<Approval> {
  return { method: "POST", path: pathOf("/v1/ops/approvals/{approval_id}/reject", approval_id), answers: { 200: "json" }, isRepeatable: true };
}

/** How operators can sign in. */
export function getSignIn(): Call<SignInOptions> {
  return { method: "GET", path: "/v1/console/sign-in", answers: { 200: "json" }, isRepeatable: true };
}

/** Sign in to the console as an operator. */
export function signInWithPassword(args: { email: string; password: string; }): Call<Session> {
  return { method: "POST", path: "/v1/console/password", answers: { 200: "json" }, body: { email: args.email, password: args.password }, isRepeatable: true };
}

/** Set a password with an invitation, and sign in. */
export function acceptInvitation(args: { token: string; password: string; }): Call<Session> {
  return { method: "POST", path: "/v1/console/invitation", answers: { 200: "json" }, body: { token: args.token, password: args.password }, isRepeatable: true };
}
