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
    forgetStored(name); // Full: then it lasts as long as the page, and what was stored before must not come back.
  }
}

function forgetStored(name) {
  try {
    storage()?.removeItem(name);
  } catch {
    // Nor can it be read.
  }
}

export class Kept {
  #name;

  constructor(saleId, buyer) {
    this.#name = `${PREFIX}${saleId}:${buyer}`;
  }

  #read() {
    try {
      return JSON.parse(storage()?.getItem(this.#name) ?? inMemory.get(this.#name) ?? "{}");
    } catch {
      return {};
    }
  }

  /** As it is now: another window of this buyer may have written it. */
  get(name) {
    return this.#read()[name];
  }

  get hasBegun() {
    return Boolean(this.get("ticket") || this.get("key") || this.get("reservation"));
  }

  /** `undefined` forgets. Another window may have written meanwhile; only what is given here changes. */
  set(facts) {
    write(this.#name, JSON.stringify({ ...this.#read(), ...facts }));
  }

  /** The one purchase that all windows of this buyer are at: its key, and what is asked for under it. */
  beginPurchase(asked) {
    return alone(this.#name, () => {
      if (!this.get("key")) this.set({ key: newKey() });
      if (!this.get("asked")) this.set({ asked });
      return { key: this.get("key"), asked: this.get("asked") };
    });
  }

  /** The server said no, so nothing was granted under this key: what is asked for next may be something else. */
  endAsking(key) {
    if (this.get("key") === key) this.set({ asked: undefined });
  }

  /** The purchase under this key is over; a pass or a place that is still good stays, and so does another purchase. */
  forgetPurchase(key) {
    if (this.get("key") === key) this.set({ key: undefined, asked: undefined, reservation: undefined });
  }

  forgetPlace() {
    this.set({ ticket: undefined, position: undefined, pass: undefined, passUntil: undefined });
  }
}

/** One window at a time, where the browser can see to that. */
async function alone(name, work) {
  try {
    return await navigator.locks.request(name, work);
  } catch {
    return work();
  }
}

/** 128 random bits. `crypto.randomUUID` is there only where the page came by TLS. */
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), hex).join("");
const hex = (byte) => byte.toString(16).padStart(2, "0");

/** Whether somebody, or this buyer, is on their way through the sale here: then `joinAndBuy` goes on where it was. */
export function hasBegun(saleId, buyer) {
  const ours = `${PREFIX}${saleId}:`;
  if (buyer !== undefined) return new Kept(saleId, buyer).hasBegun;
  const names = [...inMemory.keys(), ...Object.keys(storage() ?? {})];
  return names.some((name) => name.startsWith(ours) && new Kept(saleId, name.slice(ours.length)).hasBegun);
}
