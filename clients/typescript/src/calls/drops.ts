// Generated from the endpoint table by `make docs`. Do not edit.

import { type Call, pathOf } from "../call.js";
import type { Drop, DropPage, RoomIn } from "../types.js";

/** Create a drop. */
export function createDrop(args: { drop_id: string; name: string; starts_at: string; per_buyer_limit?: number | null; room?: RoomIn; }): Call<Drop> {
  return { method: "POST", path: "/v1/drops", answers: { 201: "json", 200: "json" }, body: { drop_id: args.drop_id, name: args.name, starts_at: args.starts_at, per_buyer_limit: args.per_buyer_limit, room: args.room }, isRepeatable: true };
}

/** List drops, by ID. */
export function listDrops(args: { limit?: number; starting_after?: string; } = {}): Call<DropPage> {
  return { method: "GET", path: "/v1/drops", answers: { 200: "json" }, query: { limit: args.limit, starting_after: args.starting_after }, isRepeatable: true };
}

/** What a drop sells, and when. */
export function getDrop(drop_id: string): Call<Drop> {
  return { method: "GET", path: pathOf("/v1/drops/{drop_id}", drop_id), answers: { 200: "json" }, isRepeatable: true };
}

/** Change a drop. */
export function changeDrop(drop_id: string, args: { name?: string; starts_at?: string; per_buyer_limit?: number | null; room?: RoomIn; } = {}): Call<Drop> {
  return { method: "PATCH", path: pathOf("/v1/drops/{drop_id}", drop_id), answers: { 200: "json" }, body: { name: args.name, starts_at: args.starts_at, per_buyer_limit: args.per_buyer_limit, room: args.room }, isRepeatable: true };
}
