/** One buyer's visit to one sale: what every step of it works with. */
import { Asker, Refusal, Stopped } from "./asking.js";
import { ServerClock } from "./clock.js";
import { Kept } from "./kept.js";
import { START, isOver, next } from "./states.js";
import { Tokens, buyerOf } from "./tokens.js";

/** Phases in which nobody gets anything any more. */
const OVER = { sold_out: "sold_out", ended: "sale_ended" };

export class Visit {
  state = START;
  kept = null;
  #ending = new AbortController();
  #asker;
  #onState;

  constructor(saleId, { origin = "", token, buyer, quantity = 1, paymentMethod, onState = () => {} }) {
    this.saleId = saleId;
    this.path = `/v1/sales/${encodeURIComponent(saleId)}`;
    this.quantity = quantity;
    this.paymentMethod = paymentMethod;
    this.clock = new ServerClock();
    this.tokens = new Tokens(token);
    this.givenBuyer = buyer;
    this.#onState = onState;
    const { clock, tokens, signal } = this;
    this.#asker = new Asker({ origin, clock, tokens, signal, onTrouble: (trouble) => this.#trouble(trouble) });
  }

  get signal() {
    return this.#ending.signal;
  }

  stop() {
    this.#ending.abort();
  }

  /** Tell what happened; whoever watches hears of it if it changed anything. */
  tell(event) {
    const after = next(this.state, event);
    if (after === this.state || this.signal.aborted) return;
    this.state = after;
    this.#onState(after);
  }

  #trouble(trouble) {
    if (this.state.trouble !== trouble) this.tell({ trouble });
  }

  ask(...request) {
    return this.#asker.ask(...request);
  }

  once(...request) {
    return this.#asker.once(...request);
  }

  stream(...request) {
    return this.#asker.stream(...request);
  }

  /** What is sold, and who buys. */
  async begin() {
    const { body: sale } = await this.ask("GET", this.path, { signed: false });
    const buyer = this.givenBuyer ?? buyerOf(await this.tokens.current());
    this.kept = new Kept(this.saleId, buyer);
    this.tell({ sale, buyer });
    return sale;
  }

  /** How the sale stands; refuses for everyone when nothing is left or it is over. */
  async look() {
    const { body: now } = await this.ask("GET", `${this.path}/now`, { signed: false });
    this.tell({ now });
    if (now.state in OVER) throw new Refusal({ reason: OVER[now.state] });
    return now;
  }

  /** Run the steps to an end, and make an end of whatever goes wrong. */
  async run(steps) {
    try {
      await steps(this);
    } catch (error) {
      if (error instanceof Stopped || this.signal.aborted) return;
      const problem = error instanceof Refusal ? error.problem : { reason: "internal_error", detail: String(error) };
      this.tell({ to: "refused", reason: problem.reason, problem });
    }
  }

  get isOver() {
    return isOver(this.state);
  }
}
