// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { Jwks, Mine, Pass, Place, RoomFacts, Wait } from "../types.js";

/** Join the queue. */
export function join(sale_id: string, args: { proof?: string | null; device?: string | null; } = {}): Call<Place> {
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/queue", sale_id), answers: { 200: "json", 202: "json" }, body: { proof: args.proof, device: args.device }, isRepeatable: true };
}

/** Leave the queue. */
export function leave(sale_id: string, args: { ticket: string; }): Call<null> {
  return { method: "DELETE", path: pathOf("/v1/sales/{sale_id}/queue", sale_id), answers: { 204: "nothing" }, headers: { "Holdfast-Ticket": args.ticket }, isRepeatable: true };
}

/** Look at your place. */
export function status(sale_id: string, args: { ticket: string; }): Call<Place> {
  return { method: "GET", path: pathOf("/v1/sales/{sale_id}/queue/status", sale_id), answers: { 200: "json", 202: "json" }, headers: { "Holdfast-Ticket": args.ticket }, isRepeatable: true };
}

/** Ask for a pass. */
export function admission(sale_id: string, args: { ticket: string; }): Call<Pass | Wait> {
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/admission", sale_id), answers: { 200: "json", 202: "json" }, headers: { "Holdfast-Ticket": args.ticket }, isRepeatable: true };
}

/** What you have in this sale. */
export function mine(sale_id: string): Call<Mine> {
  return { method: "GET", path: pathOf("/v1/sales/{sale_id}/mine", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** The queue and its pace. */
export function getRoom(sale_id: string): Call<RoomFacts> {
  return { method: "GET", path: pathOf("/v1/sales/{sale_id}/room", sale_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Set the rate, pause the queue, admit people. */
export function changeRoom(sale_id: string, args: { rate_per_second?: number | null; paused?: boolean; beacon_value?: string; admit?: number | null; } = {}): Call<RoomFacts> {
  return { method: "POST", path: pathOf("/v1/sales/{sale_id}/room", sale_id), answers: { 200: "json" }, body: { rate_per_second: args.rate_per_second, paused: args.paused, beacon_value: args.beacon_value, admit: args.admit }, isRepeatable: false };
}

/** The closed list of a lottery. */
export function lotteryEntries(sale_id: string, args: { from?: number; } = {}): Call<string> {
  return { method: "GET", path: pathOf("/v1/sales/{sale_id}/lottery/entries", sale_id), answers: { 200: "text" }, query: { from: args.from }, isRepeatable: true };
}

/** The public keys of passes. */
export function jwks(): Call<Jwks> {
  return { method: "GET", path: "/.well-known/jwks.json", answers: { 200: "json" }, isRepeatable: true };
}
