/** The waiting room: join the queue, wait, and get a pass. */
import { ApiError } from "./api.js";
import { nextPollDelay, sleep } from "./backoff.js";
import { deviceToken } from "./device.js";
import { PROOF_ATTEMPTS, isStaleProof, prove } from "./proof.js";
import * as paths from "../paths.mjs";

/** Refetch the buyer's own ETA and odds when the queue has moved by this share, or after this long. */
const MOVED_SHARE = 0.15;
const STATUS_EVERY_MS = 15_000;
/** Refusals of a ticket that gives no place: the buyer joins again. */
const USELESS_TICKET = new Set(["ticket_invalid", "place_released", "pass_expired"]);
/** Do not start a purchase with a pass that expires sooner than this. */
const PASS_MARGIN_MS = 1_000;

/** Returns when there is a valid pass in storage: at once if one is left, else when it is the buyer's turn. */
export async function obtainPass(session) {
  const passUntil = session.storage.get("passUntil");
  if (passUntil !== undefined && passUntil - session.clock.now() > PASS_MARGIN_MS) return;
  if (passUntil !== undefined) session.storage.clearPlace();
  const place = (await resumePlace(session)) ?? (await join(session));
  session.dispatch({ to: "waiting", ...placeFacts(place), since: session.clock.now(), first: place.ahead });
  await waitForTurn(session, place);
}

async function resumePlace(session) {
  if (!session.storage.get("ticket")) return null;
  try {
    return await fetchStatus(session);
  } catch (error) {
    if (!USELESS_TICKET.has(error.reason)) throw error;
    session.storage.clearPlace();
    return null;
  }
}

async function join(session) {
  const device = deviceToken();
  let level = 1;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const proof = await prove(session, attempt, level);
      const given = proof === null ? { device } : { device, proof };
      const { body } = await session.request("POST", paths.join(session.saleId), { body: given });
      session.storage.set({ ticket: body.ticket });
      return body;
    } catch (error) {
      if (!isStaleProof(error) || attempt === PROOF_ATTEMPTS) throw error;
      level = error.problem.level ?? level;
    }
  }
}

async function fetchStatus(session) {
  const headers = { "holdfast-ticket": session.storage.get("ticket") };
  const { body } = await session.request("GET", paths.status(session.saleId), { headers });
  session.storage.set({ ticket: body.ticket });
  return body;
}

async function waitForTurn(session, place) {
  let fetched = { at: Date.now(), ahead: place.ahead };
  while (!session.signal.aborted) {
    const now = await session.fetchNow();
    const ahead = aheadOf(place, now.serving);
    session.dispatch({ from: "waiting", ahead, serving: now.serving });
    if (isCalled(place.position, now.serving) && (await requestPass(session))) return;
    if (place.provisional || isStale(fetched, ahead, now)) {
      place = await fetchStatus(session);
      fetched = { at: Date.now(), ahead: place.ahead };
      session.dispatch({ from: "waiting", ...placeFacts(place) });
    }
    await sleep(nextPollDelay(now, session.clock.now()), session.signal);
  }
}

export const isCalled = (position, serving) => position !== null && position <= serving;
/** Never more than the server said: it knows how many of those before us have left. */
export const aheadOf = ({ position, ahead }, serving) =>
  position === null ? null : Math.min(ahead ?? Infinity, Math.max(position - 1 - serving, 0));

/** Whether to refetch the buyer's own status. In a lottery the position is unknown until the draw. */
export function isStale(fetched, ahead, now, at = Date.now()) {
  if (fetched.ahead === null) return Boolean(now.lottery?.seed);
  const moved = fetched.ahead - ahead;
  return at - fetched.at > STATUS_EVERY_MS || (moved > 0 && moved >= fetched.ahead * MOVED_SHARE);
}

function placeFacts({ position, serving, ahead, eta_seconds: etaSeconds, odds, likely_sold_out: likelySoldOut, provisional = false }) {
  return { position, serving, ahead, etaSeconds, odds, likelySoldOut, provisional };
}

/** Whether a pass was issued. After a refusal the place is lost and the buyer has to join again. */
async function requestPass(session) {
  const headers = { "holdfast-ticket": session.storage.get("ticket") };
  try {
    const { status, body } = await session.request("POST", paths.admission(session.saleId), { headers });
    if (status === 202) return false;
    const passUntil = Date.parse(body.expires_at);
    session.storage.set({ pass: body.pass, passUntil });
    session.dispatch({ to: "admitted", passUntil });
    return true;
  } catch (error) {
    if (error instanceof ApiError) session.storage.clearPlace();
    throw error;
  }
}

export async function leaveQueue(session) {
  const headers = { "holdfast-ticket": session.storage.get("ticket") };
  session.storage.clearPlace();
  await session.request("DELETE", paths.leave(session.saleId), { headers });
}
