// Generated from the endpoint table by `make docs`. Do not edit.

export * from "./types/inventory.js";
export * from "./types/sales.js";
export * from "./types/drops.js";
export * from "./types/purchase.js";
export * from "./types/room.js";
export * from "./types/reservations.js";
export * from "./types/money.js";
export * from "./types/operate.js";
export * from "./types/operate_2.js";
export * from "./types/team.js";
export * from "./types/revocations.js";
export * from "./types/webhooks.js";
export * from "./types/messages.js";
