/** One buyer in one sale: the state, and the collaborators that every step uses. */
import { AbortedError, ApiClient, ApiError } from "./api.js";
import { ServerClock } from "./clock.js";
import { INITIAL, isFinal, next } from "./states.js";
import { SaleStorage } from "./storage.js";
import { Tabs } from "./tabs.js";
import { Tokens, buyerOf } from "./tokens.js";
import * as paths from "../paths.mjs";

/** Sale states in which nobody can buy any more, and the reason given for each. */
const CLOSED = { sold_out: "sold_out", ended: "sale_ended" };

export class Session {
  state = INITIAL;
  storage = null;
  /** The idempotency key of the current purchase. */
  key = undefined;
  /** Whether the payment in progress was started here, and not before a reload or on another device. */
  hasStartedPayment = false;
  /** Called when another tab of this buyer has changed the purchase. */
  onOtherTab = () => {};
  /** The place in line, also after the turn has come. */
  #position = null;
  #tabs = null;
  #controller = new AbortController();
  #api;
  #onState;

  constructor(
    saleId,
    { origin = "", token, buyer, reservation = null, quantity = 1, paymentMethod, captcha = null, passOnly = () => false, onState = () => {} },
  ) {
    this.saleId = saleId;
    this.quantity = quantity;
    this.paymentMethod = paymentMethod;
    this.passOnly = passOnly;
    this.captcha = captcha;
    this.clock = new ServerClock();
    this.tokens = new Tokens(token);
    this.buyer = buyer;
    /** What another tab has told of, in case its storage is not visible here yet. */
    this.reservation = reservation;
    this.#onState = onState;
    const { clock, tokens, signal } = this;
    this.#api = new ApiClient({ origin, clock, tokens, signal, onTrouble: (trouble) => this.#setTrouble(trouble) });
  }

  get signal() {
    return this.#controller.signal;
  }

  stop() {
    this.#controller.abort();
    this.#tabs?.close();
  }

  /** Tells the other tabs what has become of the purchase; without an argument, of the one that is shown. */
  tellTabs({ reservation_id: id, receipt } = this.state.reservation ?? {}) {
    this.#tabs?.tell(this.state.buyer, id ? { reservation_id: id, receipt } : null);
  }

  /** Applies an event to the state, and calls `onState` if it changed. */
  dispatch(event) {
    this.#position = event.position ?? this.#position;
    const after = next(this.state, event);
    if (after === this.state || this.signal.aborted) return;
    this.state = after;
    this.#onState(after);
  }

  #setTrouble(trouble) {
    if (this.state.trouble !== trouble) this.dispatch({ trouble });
  }

  request(...args) {
    return this.#api.request(...args);
  }

  requestOnce(...args) {
    return this.#api.requestOnce(...args);
  }

  openStream(...args) {
    return this.#api.openStream(...args);
  }

  /** The sale's facts. The browser may have kept an old price, so it asks whether they have changed. */
  async fetchSale() {
    return (await this.request("GET", paths.getSale(this.saleId), { signed: false, cache: "no-cache" })).body;
  }

  /** Loads the sale and identifies the buyer. */
  async load() {
    const sale = await this.fetchSale();
    const buyer = this.buyer ?? buyerOf(await this.tokens.current());
    this.storage = new SaleStorage(this.saleId, buyer);
    if (!this.signal.aborted) this.#tabs = new Tabs(this.saleId, (told) => told.buyer === buyer && this.onOtherTab());
    this.dispatch({ sale, buyer });
    return sale;
  }

  /** The sale's current status. Throws if it is sold out or has ended. */
  async fetchNow() {
    const { body: now } = await this.request("GET", paths.now(this.saleId), { signed: false });
    this.dispatch({ now });
    if (now.state in CLOSED) throw new ApiError({ reason: CLOSED[now.state] });
    return now;
  }

  /** Runs the steps; any error becomes the state `refused`. */
  async run(steps) {
    try {
      await steps(this);
    } catch (error) {
      if (error instanceof AbortedError || this.signal.aborted) return;
      const problem = error instanceof ApiError ? error.problem : { reason: "internal_error", detail: String(error) };
      this.dispatch({ to: "refused", reason: problem.reason, problem, position: this.#position });
    }
  }

  get isFinal() {
    return isFinal(this.state);
  }
}
