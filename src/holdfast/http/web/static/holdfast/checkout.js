/** From the pass to the order: reserve once, hold, pay, and report the result. */
import { ApiError } from "./api.js";
import { nextPollDelay, sleep } from "./backoff.js";
import { watchBank } from "./bank.js";
import { waitForSettlement } from "./events.js";
import { PROOF_ATTEMPTS, isStaleProof, prove } from "./proof.js";
import { fetchReservation } from "./reservation.js";
import * as paths from "../paths.mjs";

/** Refusals that may clear soon: keep trying while the pass lasts. */
const RETRYABLE = new Set(["all_held", "sale_paused", "sale_not_open"]);
/** Refusals which prove that nothing was granted. After any other, the same key may still find a reservation. */
const NOTHING_GRANTED = new Set([
  "sold_out", "insufficient_inventory", "sale_ended", "buyer_limit", "hold_budget", "tier_required", "invalid_request",
  "idempotency_key_reused",
]); // prettier-ignore
/** Ask this long after a hold's deadline, so that the server has expired it. */
const EXPIRY_MARGIN_MS = 400;
/** A proxy that answers for a sold-out sale lets retries through: the first attempt may have won. */
const RETRY = { "holdfast-retry": "1" };
/** A cart that is paid at the shop: nothing on this page tells when that is done. */
const EXTERNAL_POLL_MS = 4_000;
/** A declined payment makes a reservation active again. */
const OPEN = new Set(["active", "settling"]);
const ORDER_ATTEMPTS = 5;
const ORDER_RETRY_MS = 500;

/** For sales without a waiting room. */
export async function waitForOpening(session) {
  let now = await session.fetchNow();
  while (now.state === "upcoming" && !session.signal.aborted) {
    session.dispatch({ to: "upcoming" });
    await sleep(nextPollDelay(now, session.clock.now()), session.signal);
    now = await session.fetchNow();
  }
}

export async function reserve(session) {
  let proofs = 0;
  while (!session.signal.aborted) {
    const proof = needsProof(session.state.sale) ? await prove(session, proofs + 1) : null;
    session.dispatch({ to: "reserving" });
    try {
      return await purchase(session, proof);
    } catch (error) {
      if (isStaleProof(error) && ++proofs < PROOF_ATTEMPTS) continue;
      const [held] = error.problem?.reservation_ids ?? [];
      if (held) return continueWith(session, held);
      if (!RETRYABLE.has(error.reason)) throw await finalError(session, error);
      session.storage.clearRequest(session.key);
      session.dispatch({ to: "hoping", reason: error.reason, ...deadlines(error.problem, session) });
      await waitForStock(session, error.problem);
    }
  }
  return null;
}

/** At the limit because of a hold from another device: that is the cart. */
function continueWith(session, id) {
  session.storage.clearPurchase(session.key);
  session.storage.set({ reservation: { reservation_id: id } });
  session.key = undefined;
  return fetchReservation(session, { reservation_id: id });
}

/** With a waiting room, the proof of work is spent on a place in it. */
const needsProof = (sale) => sale.proof_of_work !== null && sale.room.mode === "off";

/** The idempotency key is stored before it is sent: a reload repeats the request and cannot buy twice. */
async function purchase(session, proof) {
  const { storage, quantity, paymentMethod } = session;
  const { key, request, isRepeat } = await storage.beginPurchase({ quantity, ...(paymentMethod && { payment_method: paymentMethod }) });
  session.key = key;
  const pass = storage.get("pass");
  const headers = { "idempotency-key": key, ...(pass && { "holdfast-pass": pass }), ...(isRepeat && RETRY) };
  const body = { ...request, ...(proof && { proof }) };
  const { body: reservation } = await session.request("POST", paths.purchase(session.saleId), {
    body,
    headers,
    retryHeaders: RETRY,
  });
  storage.set({ reservation: { reservation_id: reservation.reservation_id, receipt: reservation.receipt } });
  session.tellTabs(reservation);
  return reservation;
}

async function finalError(session, error) {
  if (!(error instanceof ApiError)) return error;
  const { storage, key } = session;
  if (error.reason === "admission_required") {
    storage.clearRequest(key);
    storage.clearPlace();
    return new ApiError({ ...error.problem, reason: "pass_expired" });
  }
  if (NOTHING_GRANTED.has(error.reason) && !storage.get("reservation")) storage.clearPurchase(key);
  if (error.reason !== "buyer_limit") return error;
  const orders = (await fetchOrders(session)).filter((order) => order.confirmed_at !== null);
  return new ApiError({ ...error.problem, orders });
}

function deadlines(problem, session) {
  const at = problem.next_return_at ?? problem.starts_at;
  return { nextReturnAt: at ? Date.parse(at) : null, passUntil: session.storage.get("passUntil") ?? null };
}

/** Polls until units may be available again. Throws when the pass expires first. */
async function waitForStock(session, problem) {
  for (;;) {
    const now = await session.fetchNow();
    if (now.state === "open") return;
    const passUntil = session.storage.get("passUntil") ?? Infinity;
    if (session.clock.now() > passUntil) {
      session.storage.clearPlace();
      throw new ApiError({ ...problem, reason: "pass_expired" });
    }
    session.dispatch({ from: "hoping", ...deadlines({ ...problem, next_return_at: now.next_return_at }, session) });
    await sleep(nextPollDelay(now, session.clock.now()), session.signal);
    if (session.signal.aborted) return;
  }
}

/** Takes a reservation from its current status to its final one. */
export async function complete(session, reservation) {
  while (OPEN.has(reservation.status) && !session.signal.aborted) {
    if (reservation.status === "active") {
      reservation = await holdCart(session, reservation);
    } else {
      session.dispatch({ to: "paying", reservation });
      reservation = await settle(session, reservation);
    }
  }
  await reportResult(session, reservation);
}

/** Waits for the payment to be decided, and meanwhile for the bank to ask. */
async function settle(session, reservation) {
  const watching = new AbortController();
  session.signal.addEventListener("abort", () => watching.abort(), { signal: watching.signal });
  watchBank(session, reservation, watching.signal);
  try {
    return await waitForSettlement(session, reservation);
  } finally {
    watching.abort();
    session.hasStartedPayment = false;
  }
}

async function holdCart(session, reservation) {
  session.dispatch({ to: "cart", reservation, ...deadlinesOf(reservation, session.state.sale), isBusy: false });
  while (reservation.status === "active" && !session.signal.aborted) {
    const untilExpired = session.state.expiresAt - session.clock.now() + EXPIRY_MARGIN_MS;
    const left = session.state.sale?.payment === "external" ? Math.min(untilExpired, EXTERNAL_POLL_MS) : untilExpired;
    await Promise.race([session.cartChange.notified, sleep(Math.max(left, EXPIRY_MARGIN_MS), session.signal)]);
    if (session.signal.aborted) break;
    session.cartChange.reset(); // Before the request: what changes meanwhile is looked up again.
    reservation = { ...reservation, ...(await fetchReservation(session, reservation)) };
    const until = deadlinesOf(reservation, session.state.sale);
    if (reservation.status === "active") session.dispatch({ from: "cart", reservation, ...until });
  }
  return reservation;
}

/** When the hold ends, and the latest that extensions can move it to. The answer to a purchase has no `created_at`. */
function deadlinesOf({ created_at: created, expires_at: expires }, sale) {
  const expiresAt = Date.parse(expires);
  const createdAt = created ? Date.parse(created) : expiresAt - sale.hold_seconds * 1000;
  return { expiresAt, latestExpiresAt: createdAt + sale.max_hold_seconds * 1000 };
}

async function reportResult(session, reservation) {
  if (session.signal.aborted) return;
  session.tellTabs(reservation);
  const { status } = reservation;
  if (status === "confirmed") {
    session.dispatch({ to: "confirmed", reservation, order: await fetchOrder(session, reservation) });
  } else if (status === "failed") {
    session.dispatch({ to: "declined", reservation, reason: reservation.failure_reason ?? "declined" });
  } else {
    session.dispatch({ to: "refused", reason: `reservation_${status}`, problem: {}, reservation });
  }
}

async function fetchOrders(session) {
  const { body } = await session.request("GET", `${paths.listOrders()}?sale_id=${encodeURIComponent(session.saleId)}`);
  return body.data;
}

/** With the gate in Redis, the order appears shortly after the confirmation. */
async function fetchOrder(session, { reservation_id: id }) {
  for (let attempt = 0; attempt < ORDER_ATTEMPTS; attempt += 1) {
    const found = (await fetchOrders(session)).find((order) => order.reservation_id === id);
    if (found) return found;
    await sleep(ORDER_RETRY_MS, session.signal);
  }
  return null;
}
