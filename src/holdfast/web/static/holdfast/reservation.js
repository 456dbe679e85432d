/** A reservation, as the server knows it. */

/** The reservation as it is now, whatever happened since; none if there is none by this id any more. */
export async function recall(visit) {
  const kept = visit.kept.get("reservation");
  if (!kept) return null;
  try {
    return await show(visit);
  } catch (error) {
    if (error.reason !== "reservation_not_found") throw error;
    visit.kept.forgetPurchase();
    return null;
  }
}

export async function show(visit) {
  const { reservation_id: id, receipt } = visit.kept.get("reservation");
  const { body } = await visit.ask("GET", `/v1/reservations/${id}`, { headers: { "holdfast-receipt": receipt } });
  return { receipt, ...body };
}
