/**
 * Buying in a sale, for any page: line, proof of work, cart and payment, as one small machine. See docs/EMBED.md.
 *
 *   import { joinAndBuy } from "/assets/holdfast.js";
 *   const buying = joinAndBuy("drop", { token: () => myLogin.token(), onState: (state) => show(state) });
 *   buying.pay();
 */
import { Refusal } from "./holdfast/asking.js";
import { conclude, reserve, untilOpen } from "./holdfast/checkout.js";
import { leaveLine, passThroughLine } from "./holdfast/line.js";
import { recall } from "./holdfast/reservation.js";
import { rest, untilNextLook } from "./holdfast/rest.js";
import { Visit } from "./holdfast/visit.js";

export { hasBegun } from "./holdfast/kept.js";
export { buyerOf } from "./holdfast/tokens.js";

const EXTEND_S = 60;

async function goThrough(visit) {
  const sale = await visit.begin();
  let reservation = await recall(visit);
  if (reservation === null) {
    if (sale.room.mode === "off") await untilOpen(visit);
    // Asked before, with this pass: should it be over by now, the same key finds what was granted all the same.
    else if (!visit.kept.get("key") || !visit.kept.get("pass")) await passThroughLine(visit);
    reservation = await reserve(visit);
  }
  if (reservation !== null) await conclude(visit, reservation);
}

/** Rung while nobody listens, it is heard by whoever listens next. */
function makeBell() {
  let ring;
  const rung = new Promise((resolve) => (ring = resolve));
  return { ring, rung };
}

class Buying {
  #visit;
  #options;
  #saleId;
  #bell = makeBell();

  constructor(saleId, options) {
    this.#saleId = saleId;
    this.#options = options;
    this.#start();
  }

  #start() {
    this.#visit = new Visit(this.#saleId, this.#options);
    this.#visit.cartChanged = async () => {
      await this.#bell.rung;
      this.#bell = makeBell();
    };
    this.#visit.run(goThrough);
  }

  get state() {
    return this.#visit.state;
  }

  /** The server's time, in milliseconds: what deadlines are counted down by. */
  now() {
    return this.#visit.clock.now();
  }

  /** Hold the units longer. Asked once: twice would be longer still, and the cart shows what came of it. */
  extend(seconds = EXTEND_S) {
    return this.#inCart((visit, path) => visit.once("POST", `${path}/extend`, { body: { ttl_seconds: seconds } }));
  }

  giveBack() {
    return this.#inCart((visit, path) => visit.ask("DELETE", path));
  }

  /** Begin to pay; `paymentMethod` is the provider's name for a card, where it needs one. */
  pay(paymentMethod) {
    const body = paymentMethod ? { payment_method: paymentMethod } : {};
    return this.#inCart((visit, path) => visit.ask("POST", `${path}/confirm`, { body }));
  }

  /** Give up: the place in line, or the hope that something comes back. */
  async leave() {
    const visit = this.#visit;
    if (visit.state.name === "waiting") await leaveLine(visit).catch(() => {});
    else if (visit.state.name === "hoping") visit.kept.forgetPurchase(visit.key);
    else return;
    visit.tell({ to: "refused", reason: "left", problem: {} });
    visit.stop();
  }

  /** After an end: another try, with what is still good of place and pass. */
  again() {
    if (!this.#visit.isOver) return;
    // A purchase that nobody knows the end of is asked for again, under its key.
    const { kept, key, state } = this.#visit;
    if (state.reservation) kept.forgetPurchase(key);
    this.#visit.stop();
    this.#start();
  }

  /** Everything that happened to the reservation: `[{type, at, …}]`. */
  async history() {
    const id = this.state.reservation?.reservation_id;
    return id ? (await this.#visit.ask("GET", `/v1/reservations/${id}/history`)).body.events : [];
  }

  stop() {
    this.#visit.stop();
  }

  /** A refusal here leaves the cart as it is; the state says why in `problem`. */
  async #inCart(act) {
    const visit = this.#visit;
    if (visit.state.name !== "cart" || visit.state.isBusy) return;
    visit.tell({ from: "cart", isBusy: true, problem: null });
    try {
      await act(visit, `/v1/reservations/${visit.state.reservation.reservation_id}`);
    } catch (error) {
      if (error instanceof Refusal) visit.tell({ from: "cart", problem: error.problem });
    } finally {
      visit.tell({ from: "cart", isBusy: false });
      this.#bell.ring();
    }
  }
}

/** Begin to buy, or go on where this browser was. The states are told to `onState`; docs/EMBED.md has them all. */
export function joinAndBuy(saleId, options = {}) {
  return new Buying(saleId, options);
}

/** Tell `onSale({sale, now, serverNow, problem})` how a sale stands, as often as it changes; returns what ends it. */
export function watchSale(saleId, onSale, { origin = "" } = {}) {
  const visit = new Visit(saleId, { origin, onState: ({ trouble }) => told({ trouble }) });
  let seen = { sale: null, now: null, problem: null, trouble: null, serverNow: () => visit.clock.now() };

  function told(news) {
    seen = { ...seen, ...news };
    if (!visit.signal.aborted) onSale(seen);
  }

  async function watch() {
    told({ sale: (await visit.ask("GET", visit.path, { signed: false })).body });
    while (!visit.signal.aborted) {
      const { body: now } = await visit.ask("GET", `${visit.path}/now`, { signed: false });
      told({ now });
      await rest(untilNextLook(now, visit.clock.now()), visit.signal);
    }
  }

  watch().catch((error) => told({ problem: error.problem ?? { reason: "internal_error" } }));
  return () => visit.stop();
}
