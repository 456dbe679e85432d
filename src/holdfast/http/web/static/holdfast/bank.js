/** While a payment is in progress, the bank may ask the buyer (3-D Secure): find out, and say when it was answered. */
import { sleep, withJitter } from "./backoff.js";
import * as paths from "../paths.mjs";

/** Most payments are decided by then. */
const FIRST_LOOK_MS = 700;
const LOOK_MS = 1_500;
const ASKED_BY = new Set(["stripe", "sandbox"]);

/** Puts the bank's question into the state `paying`, as `action: {client_secret} | {url}`, until the signal ends it. */
export async function watchBank(session, { reservation_id: id }, signal) {
  if (!ASKED_BY.has(session.state.sale?.payment)) return;
  const path = paths.getPayment(id);
  try {
    // After a reload the buyer may be back from the bank.
    if (!session.hasStartedPayment) await session.request("POST", path);
    while (!signal.aborted) {
      await sleep(withJitter(session.hasStartedPayment ? FIRST_LOOK_MS : LOOK_MS), signal);
      if (signal.aborted) return;
      const { body: step } = await session.request("GET", path);
      if (step.status === "none" || signal.aborted) return;
      if (step.status !== "action_required") continue;
      session.bankAnswer.reset();
      session.dispatch({ from: "paying", action: step });
      await session.bankAnswer.notified;
      session.dispatch({ from: "paying", action: null });
      await session.request("POST", path);
    }
  } catch {
    // The payment is decided without this page; it may only be that the buyer is not asked.
  }
}
