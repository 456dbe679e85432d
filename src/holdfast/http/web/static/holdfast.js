/**
 * Buying in a sale from any page: queue, proof of work, cart and payment behind one state machine. See docs/EMBED.md.
 *
 *   import { joinAndBuy } from "/assets/holdfast.js";
 *   const buying = joinAndBuy("drop", { token: () => myLogin.token(), onState: (state) => show(state) });
 *   buying.pay();
 */
import { ApiError } from "./holdfast/api.js";
import { nextPollDelay, sleep } from "./holdfast/backoff.js";
import { complete, reserve, waitForOpening } from "./holdfast/checkout.js";
import { Contact } from "./holdfast/contact.js";
import { fetchMine } from "./holdfast/mine.js";
import { leaveQueue, obtainPass } from "./holdfast/queue.js";
import { resumeReservation } from "./holdfast/reservation.js";
import { Session } from "./holdfast/session.js";
import * as paths from "./paths.mjs";

export { deviceToken, resetDevice } from "./holdfast/device.js";
export { liveReservation, paidOrders } from "./holdfast/mine.js";
export { hasBegun } from "./holdfast/storage.js";
export { watchTabs } from "./holdfast/tabs.js";
export { buyerOf } from "./holdfast/tokens.js";

const EXTEND_S = 60;
/** The most that one request may ask for. */
const HOLD_MAX_S = 1800;

async function buy(session) {
  const sale = await session.load();
  if (session.passOnly(sale)) {
    await obtainPass(session);
    session.dispatch({ to: "admitted", pass: session.storage.get("pass"), passUntil: session.storage.get("passUntil") });
    return;
  }
  let reservation = await resumeReservation(session);
  if (reservation === null) {
    if (sale.room.mode === "off") await waitForOpening(session);
    // With a stored key and pass the purchase may have been sent: repeat it even if the pass has expired since.
    else if (!session.storage.get("key") || !session.storage.get("pass")) await obtainPass(session);
    reservation = await reserve(session);
  }
  if (reservation !== null) await complete(session, reservation);
}

/**
 * That something has changed since the last `reset`. Waiting for it does not consume it: with two that wait, or one that
 * gave up waiting, no change is lost.
 */
class Change {
  constructor() {
    this.reset();
  }

  reset() {
    this.notified = new Promise((resolve) => (this.notify = resolve));
  }
}

/** When the buyer comes back to the page: meanwhile they may have paid on another device. */
function onReturn(listener, signal) {
  globalThis.document?.addEventListener("visibilitychange", () => document.hidden || listener(), { signal });
  globalThis.window?.addEventListener("focus", listener, { signal });
}

class Buying {
  #session;
  #options;
  #saleId;

  constructor(saleId, options) {
    this.#saleId = saleId;
    this.#options = options;
    this.#start();
  }

  #start() {
    const session = new Session(this.#saleId, this.#options);
    session.cartChange = new Change();
    session.bankAnswer = new Change();
    session.onOtherTab = () => session.cartChange.notify();
    onReturn(() => session.cartChange.notify(), session.signal);
    this.#session = session;
    session.run(buy);
  }

  get state() {
    return this.#session.state;
  }

  /** The server's time in ms. Count down to deadlines with it. */
  now() {
    return this.#session.clock.now();
  }

  /** Adds time to the hold, up to `state.latestExpiresAt`; the cart then shows the new deadline. */
  extend(seconds = EXTEND_S) {
    const left = Math.ceil((this.state.expiresAt - this.now()) / 1000);
    const body = { ttl_seconds: Math.min(Math.max(left, 0) + seconds, HOLD_MAX_S) };
    return this.#inCart((session, id) => session.request("POST", paths.extend(id), { body }));
  }

  giveBack() {
    return this.#inCart((session, id) => session.request("DELETE", paths.cancel(id)));
  }

  /** Starts the payment. `paymentMethod` is the provider's id of a card, if it needs one. */
  pay(paymentMethod) {
    const body = paymentMethod ? { payment_method: paymentMethod } : {};
    return this.#inCart((session, id) => {
      session.hasStartedPayment = true;
      return session.request("POST", paths.confirm(id), { body });
    });
  }

  /** The buyer has answered the bank's question (`state.action`), or closed it: the payment is checked now. */
  answered() {
    if (this.state.name === "paying") this.#session.bankAnswer.notify();
  }

  /** Leaves the queue, or stops waiting for returned units. */
  async leave() {
    const session = this.#session;
    if (session.state.name === "waiting") await leaveQueue(session).catch(() => {});
    else if (session.state.name === "hoping") session.storage.clearPurchase(session.key);
    else return;
    session.dispatch({ to: "refused", reason: "left", problem: {} });
    session.stop();
  }

  /** Tries again after a final state, reusing a place or pass that is still valid. */
  again() {
    if (!this.#session.isFinal) return;
    // Without a reservation the outcome may be unknown: keep the key, so that the retry finds what was granted.
    const { storage, key, state } = this.#session;
    if (state.reservation) storage.clearPurchase(key, state.reservation.reservation_id);
    this.#options = { ...this.#options, reservation: null };
    this.#session.stop();
    this.#start();
  }

  /** The reservation's events: `[{type, at, …}]`. */
  async history() {
    const id = this.state.reservation?.reservation_id;
    return id ? (await this.#session.request("GET", paths.getHistory(id))).body.events : [];
  }

  stop() {
    this.#session.stop();
  }

  /** After a refusal the state stays `cart`, with the reason in `problem`. */
  async #inCart(act) {
    const session = this.#session;
    if (session.state.name !== "cart" || session.state.isBusy) return;
    session.dispatch({ from: "cart", isBusy: true, problem: null });
    try {
      await act(session, session.state.reservation.reservation_id);
    } catch (error) {
      if (error instanceof ApiError) session.dispatch({ from: "cart", problem: error.problem });
    } finally {
      session.dispatch({ from: "cart", isBusy: false });
      session.cartChange.notify();
      session.tellTabs();
    }
  }
}

/** What the buyer has in the sale, on any device: `{place?, pass?, reservations, orders}`. Asks once. */
export async function findMine(saleId, options) {
  const session = new Session(saleId, options);
  try {
    return await fetchMine(session);
  } finally {
    session.stop();
  }
}

/** Messages to the buyer, with the same `token` and `origin`: `find()`, `ask({email, locale, next_sale})` and `end()`. */
export function contactOf(options) {
  return new Contact(new Session("", options));
}

/** Starts a purchase, or resumes this buyer's. Calls `onState` with every state; docs/EMBED.md lists them. */
export function joinAndBuy(saleId, options = {}) {
  return new Buying(saleId, options);
}

/** Calls `onSale({sale, now, serverNow, problem})` whenever the sale changes. Returns a function that stops it. */
export function watchSale(saleId, onSale, { origin = "", sale: known = null } = {}) {
  const session = new Session(saleId, { origin, onState: ({ trouble }) => update({ trouble }) });
  let current = { sale: null, now: null, problem: null, trouble: null, serverNow: () => session.clock.now() };

  function update(changes) {
    current = { ...current, ...changes };
    if (!session.signal.aborted) onSale(current);
  }

  async function poll() {
    const sale = known ?? (await session.fetchSale());
    update({ sale });
    while (!session.signal.aborted) {
      const { body: now } = await session.request("GET", paths.now(session.saleId), { signed: false });
      update({ now });
      await sleep(nextPollDelay(now, session.clock.now()), session.signal);
    }
  }

  poll().catch((error) => update({ problem: error.problem ?? { reason: "internal_error" } }));
  return () => session.stop();
}
