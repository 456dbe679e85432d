/** The client of the Holdfast API, for node 20 and browsers. It has no dependency. */
export type { Call, StreamEvent } from "./call.js";
export { Client, type Options } from "./client.js";
export * from "./errors.js";
export type { Reason } from "./reasons.js";
export * from "./types.js";
export { verifyWebhook, type WebhookEvent } from "./webhooks.js";
