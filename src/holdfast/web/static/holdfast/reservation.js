/** A reservation, as the server knows it. */

/** There is nothing to come back to. */
const GONE = new Set(["reservation_not_found", "reservation_lost"]);

/** The reservation as it is now, whatever happened since; none if there is none by this id any more. */
export async function recall(visit) {
  const kept = visit.kept.get("reservation");
  visit.key = visit.kept.get("key");
  if (!kept) return null;
  try {
    return await show(visit, kept);
  } catch (error) {
    if (error.reason !== "reservation_not_found") throw error;
    return null;
  }
}

/** The caller says which one: another window may have forgotten it, or be at the next. */
export async function show(visit, { reservation_id: id, receipt }) {
  try {
    const { body } = await visit.ask("GET", `/v1/reservations/${id}`, { headers: { "holdfast-receipt": receipt } });
    return { receipt, ...body };
  } catch (error) {
    if (GONE.has(error.reason)) visit.kept.forgetPurchase(visit.key);
    throw error;
  }
}
