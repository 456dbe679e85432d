/**
 * What a browser remembers of one buyer's way through one sale, so that a reload changes nothing: the ticket, the pass,
 * the key of the purchase and its reservation. Where nothing can be stored it is remembered for as long as the page is.
 */
const PREFIX = "holdfast:1:";
const inMemory = new Map();

function storage() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null; // Switched off by the visitor.
  }
}

function write(name, text) {
  inMemory.set(name, text);
  try {
    storage()?.setItem(name, text);
  } catch {
    // Full: then it lasts as long as the page.
  }
}

export class Kept {
  #name;
  #facts;

  constructor(saleId, buyer) {
    this.#name = `${PREFIX}${saleId}:${buyer}`;
    this.#facts = this.#read();
  }

  #read() {
    try {
      return JSON.parse(storage()?.getItem(this.#name) ?? inMemory.get(this.#name) ?? "{}");
    } catch {
      return {};
    }
  }

  get(name) {
    return this.#facts[name];
  }

  get hasBegun() {
    return Boolean(this.get("ticket") || this.get("key") || this.get("reservation"));
  }

  /** `undefined` forgets. Another window may have written meanwhile; only what is given here changes. */
  set(facts) {
    this.#facts = { ...this.#read(), ...facts };
    write(this.#name, JSON.stringify(this.#facts));
  }

  /** The purchase is over; a pass or a place that is still good stays. */
  forgetPurchase() {
    this.set({ key: undefined, reservation: undefined });
  }

  forgetPlace() {
    this.set({ ticket: undefined, position: undefined, pass: undefined, passUntil: undefined });
  }
}

/** Whether somebody, or this buyer, is on their way through the sale here: then `joinAndBuy` goes on where it was. */
export function hasBegun(saleId, buyer) {
  const ours = `${PREFIX}${saleId}:`;
  if (buyer !== undefined) return new Kept(saleId, buyer).hasBegun;
  const names = [...inMemory.keys(), ...Object.keys(storage() ?? {})];
  return names.some((name) => name.startsWith(ours) && new Kept(saleId, name.slice(ours.length)).hasBegun);
}
