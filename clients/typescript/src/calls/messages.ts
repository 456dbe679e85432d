// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { Contact, Message, MessagePage, PushSubscription } from "../types.js";

/** Where you get messages. */
export function getContact(): Call<Contact> {
  return { method: "GET", path: "/v1/me/contact", answers: { 200: "json" }, isRepeatable: true };
}

/** Ask for messages. */
export function putContact(args: { email?: string | null; locale?: string | null; next_sale?: boolean; push?: PushSubscription; } = {}): Call<Contact> {
  return { method: "PUT", path: "/v1/me/contact", answers: { 200: "json" }, body: { email: args.email, locale: args.locale, next_sale: args.next_sale, push: args.push }, isRepeatable: true };
}

/** End all messages. */
export function deleteContact(): Call<null> {
  return { method: "DELETE", path: "/v1/me/contact", answers: { 204: "nothing" }, isRepeatable: true };
}

/** What was sent to buyers, newest first. */
export function listMessages(args: { buyer_id?: string; sale_id?: string; state?: "dropped" | "failed" | "sending" | "sent" | "unknown" | "waiting"; limit?: number; starting_after?: string; } = {}): Call<MessagePage> {
  return { method: "GET", path: "/v1/ops/messages", answers: { 200: "json" }, query: { buyer_id: args.buyer_id, sale_id: args.sale_id, state: args.state, limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** Resend a message that failed, was dropped or may be lost. */
export function resendMessage(message_id: string): Call<Message> {
  return { method: "POST", path: pathOf("/v1/ops/messages/{message_id}/resend", message_id), answers: { 200: "json" }, isRepeatable: true };
}
