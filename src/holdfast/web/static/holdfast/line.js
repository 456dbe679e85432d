/** The waiting room: a place, the wait, and the pass at its end. */
import { Refusal } from "./asking.js";
import { solve } from "./proof.js";
import { rest, untilNextLook } from "./rest.js";

const PROOF_ATTEMPTS = 3;
/** Proofs that a new challenge may mend. */
const STALE_PROOF = new Set(["proof_expired", "proof_spent", "proof_invalid", "proof_required"]);
/** One's own chances are asked for when the line has moved by this part, or after this long. */
const MOVED_PART = 0.15;
const STATUS_EVERY_MS = 15_000;
/** A pass that ends sooner than this is not worth beginning with. */
const SPARE_MS = 1_000;

/** A pass, kept: at once if there is one that lasts, else at the end of the line. */
export async function passThroughLine(visit) {
  const passUntil = visit.kept.get("passUntil");
  if (passUntil !== undefined && passUntil - visit.clock.now() > SPARE_MS) return;
  if (passUntil !== undefined) visit.kept.forgetPlace();
  const place = (await returnToPlace(visit)) ?? (await join(visit));
  visit.tell({ to: "waiting", ...placeFacts(place), since: visit.clock.now(), first: place.ahead });
  await untilCalled(visit, place);
}

async function returnToPlace(visit) {
  if (!visit.kept.get("ticket")) return null;
  try {
    return await status(visit);
  } catch (error) {
    if (error.reason !== "ticket_invalid") throw error;
    visit.kept.forgetPlace();
    return null;
  }
}

async function join(visit) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const proof = await prove(visit);
      const { body } = await visit.ask("POST", `${visit.path}/queue`, { body: proof === null ? {} : { proof } });
      visit.kept.set({ ticket: body.ticket });
      return body;
    } catch (error) {
      if (!STALE_PROOF.has(error.reason) || attempt === PROOF_ATTEMPTS) throw error;
    }
  }
}

async function prove(visit) {
  const { status: code, body: challenge } = await visit.ask("GET", `${visit.path}/challenge`);
  if (code === 204) return null;
  visit.tell({ to: "proving", progress: 0 });
  const proof = await solve(challenge, {
    cost: visit.state.sale.proof_of_work?.cost ?? 1,
    onProgress: (progress) => visit.tell({ from: "proving", progress }),
    signal: visit.signal,
  });
  visit.tell({ from: "proving", progress: 1 });
  return proof;
}

async function status(visit) {
  const headers = { "holdfast-ticket": visit.kept.get("ticket") };
  const { body } = await visit.ask("GET", `${visit.path}/queue/status`, { headers });
  visit.kept.set({ ticket: body.ticket });
  return body;
}

async function untilCalled(visit, place) {
  let asked = { at: Date.now(), ahead: place.ahead };
  while (!visit.signal.aborted) {
    const now = await visit.look();
    const ahead = aheadOf(place.position, now.serving);
    visit.tell({ from: "waiting", ahead, serving: now.serving });
    if (isCalled(place.position, now.serving) && (await takePass(visit))) return;
    if (isStale(asked, ahead, now)) {
      place = await status(visit);
      asked = { at: Date.now(), ahead: place.ahead };
      visit.tell({ from: "waiting", ...placeFacts(place) });
    }
    await rest(untilNextLook(now, visit.clock.now()), visit.signal);
  }
}

export const isCalled = (position, serving) => position !== null && position <= serving;
export const aheadOf = (position, serving) => (position === null ? null : Math.max(position - 1 - serving, 0));

/** Whether one's own chances are worth asking for again; places of a lottery are known when it is drawn. */
export function isStale(asked, ahead, now, at = Date.now()) {
  if (asked.ahead === null) return Boolean(now.lottery?.seed);
  const moved = asked.ahead - ahead;
  return at - asked.at > STATUS_EVERY_MS || (moved > 0 && moved >= asked.ahead * MOVED_PART);
}

function placeFacts({ position, serving, ahead, eta_seconds: etaSeconds, odds, hopeless }) {
  return { position, serving, ahead, etaSeconds, odds, hopeless };
}

/** Whether it was given. A place that was given up, or a pass that is over, is a refusal: the buyer joins anew. */
async function takePass(visit) {
  const headers = { "holdfast-ticket": visit.kept.get("ticket") };
  try {
    const { status: code, body } = await visit.ask("POST", `${visit.path}/admission`, { headers });
    if (code === 202) return false;
    const passUntil = Date.parse(body.expires_at);
    visit.kept.set({ pass: body.pass, passUntil });
    visit.tell({ to: "admitted", passUntil });
    return true;
  } catch (error) {
    if (error instanceof Refusal) visit.kept.forgetPlace();
    throw error;
  }
}

/** Give the place up. */
export async function leaveLine(visit) {
  const headers = { "holdfast-ticket": visit.kept.get("ticket") };
  visit.kept.forgetPlace();
  await visit.ask("DELETE", `${visit.path}/queue`, { headers });
}
