/** From the pass to the order: reserve once, hold, pay, and hear what became of it. */
import { Refusal } from "./asking.js";
import { follow } from "./follow.js";
import { show } from "./reservation.js";
import { rest, untilNextLook } from "./rest.js";

/** Refusals that may be over in a moment: whoever has a pass, or needs none, tries again. */
const HOPEFUL = new Set(["all_held", "sale_paused", "sale_not_open"]);
/** Refusals by whoever decides: nothing was granted. After any other the same key may find that something was. */
const DENIED = new Set([
  "sold_out", "insufficient_inventory", "sale_ended", "buyer_limit", "hold_budget", "tier_required", "invalid_request",
  "idempotency_key_reused",
]); // prettier-ignore
/** The server decides when a hold is over. We ask a moment later, so that it has. */
const AFTER_DEADLINE_MS = 400;

/** Before the start, where there is no line to stand in. */
export async function untilOpen(visit) {
  let now = await visit.look();
  while (now.state === "upcoming" && !visit.signal.aborted) {
    visit.tell({ to: "upcoming" });
    await rest(untilNextLook(now, visit.clock.now()), visit.signal);
    now = await visit.look();
  }
}

/** One key for one purchase, kept before it is used: a reload repeats it, and a repeat never buys twice. */
export async function reserve(visit) {
  while (!visit.signal.aborted) {
    visit.tell({ to: "reserving" });
    try {
      return await purchase(visit);
    } catch (error) {
      if (HOPEFUL.has(error.reason)) visit.kept.endAsking(visit.key);
      if (!HOPEFUL.has(error.reason)) throw await explained(visit, error);
      visit.tell({ to: "hoping", reason: error.reason, ...hopes(error.problem, visit) });
      await hope(visit, error.problem);
    }
  }
  return null;
}

async function purchase(visit) {
  const { kept, quantity, paymentMethod } = visit;
  const wanted = { quantity, ...(paymentMethod && { payment_method: paymentMethod }) };
  const { key, asked: body } = await kept.beginPurchase(wanted);
  visit.key = key;
  const pass = kept.get("pass");
  const headers = { "idempotency-key": key, ...(pass && { "holdfast-pass": pass }) };
  const { body: reservation } = await visit.ask("POST", `${visit.path}/purchase`, { body, headers });
  kept.set({ reservation: { reservation_id: reservation.reservation_id, receipt: reservation.receipt } });
  return reservation;
}

async function explained(visit, error) {
  if (!(error instanceof Refusal)) return error;
  if (error.reason === "admission_required") {
    visit.kept.endAsking(visit.key);
    visit.kept.forgetPlace();
    return new Refusal({ ...error.problem, reason: "pass_over" });
  }
  if (DENIED.has(error.reason) && !visit.kept.get("reservation")) visit.kept.forgetPurchase(visit.key);
  if (error.reason !== "buyer_limit") return error;
  return new Refusal({ ...error.problem, orders: await ordersOf(visit) });
}

function hopes(problem, visit) {
  const at = problem.next_return_at ?? problem.starts_at;
  return { nextReturnAt: at ? Date.parse(at) : null, passUntil: visit.kept.get("passUntil") ?? null };
}

/** Until something may have come back, or the pass is over. */
async function hope(visit, problem) {
  for (;;) {
    const now = await visit.look();
    if (now.state === "open") return;
    const passUntil = visit.kept.get("passUntil") ?? Infinity;
    if (visit.clock.now() > passUntil) {
      visit.kept.forgetPlace();
      throw new Refusal({ ...problem, reason: "pass_over" });
    }
    visit.tell({ from: "hoping", ...hopes({ ...problem, next_return_at: now.next_return_at }, visit) });
    await rest(untilNextLook(now, visit.clock.now()), visit.signal);
    if (visit.signal.aborted) return;
  }
}

/** Take a reservation to its end, from whichever state it is in. */
export async function conclude(visit, reservation) {
  if (reservation.status === "active") reservation = await keepCart(visit, reservation);
  if (reservation.status === "settling") {
    visit.tell({ to: "paying", reservation });
    reservation = await follow(visit, reservation);
  }
  await tellEnd(visit, reservation);
}

async function keepCart(visit, reservation) {
  visit.tell({ to: "cart", reservation, expiresAt: Date.parse(reservation.expires_at), isBusy: false });
  while (reservation.status === "active" && !visit.signal.aborted) {
    const left = visit.state.expiresAt - visit.clock.now() + AFTER_DEADLINE_MS;
    await Promise.race([visit.cartChanged(), rest(Math.max(left, AFTER_DEADLINE_MS), visit.signal)]);
    if (visit.signal.aborted) break;
    reservation = { ...reservation, ...(await show(visit, reservation)) };
    const expiresAt = Date.parse(reservation.expires_at);
    if (reservation.status === "active") visit.tell({ from: "cart", reservation, expiresAt });
  }
  return reservation;
}

async function tellEnd(visit, reservation) {
  if (visit.signal.aborted) return;
  const { status } = reservation;
  if (status === "confirmed") {
    visit.tell({ to: "confirmed", reservation, order: await orderOf(visit, reservation) });
  } else if (status === "failed") {
    visit.tell({ to: "declined", reservation, reason: reservation.failure_reason ?? "declined" });
  } else {
    visit.tell({ to: "refused", reason: `reservation_${status}`, problem: {}, reservation });
  }
}

async function ordersOf(visit) {
  const { body } = await visit.ask("GET", `/v1/orders?sale_id=${encodeURIComponent(visit.saleId)}`);
  return body.data;
}

/** The order is written with the confirmation; where the gate is elsewhere, a moment after it. */
async function orderOf(visit, { reservation_id: id }) {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const found = (await ordersOf(visit)).find((order) => order.reservation_id === id);
    if (found) return found;
    await rest(500, visit.signal);
  }
  return null;
}
