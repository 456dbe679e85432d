/** What this buyer has in the sale, on any device: for a browser that has nothing stored. */
import * as paths from "../paths.mjs";

/** One attempt, because nothing depends on it: without an answer the purchase begins as if there were nothing. */
export async function fetchMine(session) {
  const { body } = await session.requestOnce("GET", paths.mine(session.saleId));
  return body;
}

/** The hold to continue with, or null. */
export const liveReservation = ({ reservations }) =>
  reservations.find(({ status }) => status === "active" || status === "settling") ?? null;

/** The orders that were paid, newest first. */
export const paidOrders = ({ orders }) => orders.filter(({ confirmed_at: at }) => at !== null);

/** Stores what another device began: the place, the pass and the reservation, which is returned. */
export async function recover(session) {
  let mine;
  try {
    mine = await fetchMine(session);
  } catch (error) {
    if (session.signal.aborted) throw error;
    return null;
  }
  const { place, pass } = mine;
  if (place) session.storage.set({ ticket: place.ticket });
  if (pass) session.storage.set({ pass: pass.pass, passUntil: Date.parse(pass.expires_at) });
  const found = liveReservation(mine);
  if (found) session.storage.set({ reservation: { reservation_id: found.reservation_id } });
  return found;
}
