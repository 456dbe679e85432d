/** Reading a reservation from the server. */
import { recover } from "./mine.js";
import * as paths from "../paths.mjs";

/** Reasons after which there is no purchase to resume. */
const GONE = new Set(["reservation_not_found", "reservation_lost"]);

/** The reservation this browser has stored, or this buyer has from another device; null if there is none. */
export async function resumeReservation(session) {
  const stored = session.storage.get("reservation") ?? session.reservation;
  session.key = session.storage.get("key");
  // With a key a purchase may have been sent: repeating it finds the reservation.
  if (!stored) return session.key ? null : recover(session);
  try {
    return await fetchReservation(session, stored);
  } catch (error) {
    if (error.reason !== "reservation_not_found") throw error;
    return null;
  }
}

/** The id is passed in, not read from storage: another tab may have cleared it or started the next purchase. */
export async function fetchReservation(session, { reservation_id: id, receipt }) {
  try {
    const headers = receipt ? { "holdfast-receipt": receipt } : {};
    const { body } = await session.request("GET", paths.getReservation(id), { headers });
    return { receipt, ...body };
  } catch (error) {
    if (GONE.has(error.reason)) session.storage.clearPurchase(session.key);
    throw error;
  }
}
