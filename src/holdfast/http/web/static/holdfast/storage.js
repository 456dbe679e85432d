/**
 * What the browser stores per sale and buyer so that a reload loses nothing: ticket, pass, idempotency key, reservation.
 * Falls back to memory when localStorage is unavailable.
 */
const PREFIX = "holdfast:1:";
const inMemory = new Map();

function localStorageOrNull() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null; // Blocked by the visitor's settings.
  }
}

function write(name, text) {
  inMemory.set(name, text);
  try {
    localStorageOrNull()?.setItem(name, text);
  } catch {
    removeStored(name); // Quota exceeded: keep it in memory, and do not read an outdated copy later.
  }
}

function removeStored(name) {
  try {
    localStorageOrNull()?.removeItem(name);
  } catch {
    // If it cannot be removed, it cannot be read either.
  }
}

export class SaleStorage {
  #name;

  constructor(saleId, buyer) {
    this.#name = `${PREFIX}${saleId}:${buyer}`;
  }

  #read() {
    try {
      return JSON.parse(localStorageOrNull()?.getItem(this.#name) ?? inMemory.get(this.#name) ?? "{}");
    } catch {
      return {};
    }
  }

  /** Always read afresh: another tab of this buyer may have written it. */
  get(name) {
    return this.#read()[name];
  }

  get hasBegun() {
    return Boolean(this.get("ticket") || this.get("key") || this.get("reservation"));
  }

  /** Merges `values` into what is stored now; `undefined` removes a value. */
  set(values) {
    write(this.#name, JSON.stringify({ ...this.#read(), ...values }));
  }

  /** All tabs of a buyer share one purchase: its key, and the request body sent with it. */
  beginPurchase(request) {
    return withLock(this.#name, () => {
      if (!this.get("key")) this.set({ key: newKey() });
      const isRepeat = this.get("request") !== undefined;
      if (!isRepeat) this.set({ request });
      return { key: this.get("key"), request: this.get("request"), isRepeat };
    });
  }

  /** Nothing was granted under this key: the next request with it may differ. */
  clearRequest(key) {
    if (this.get("key") === key) this.set({ request: undefined });
  }

  /** Keeps the place and the pass, and leaves another tab's purchase alone. */
  clearPurchase(key, reservationId) {
    const isOurs = this.get("key") === key || (reservationId && this.get("reservation")?.reservation_id === reservationId);
    if (isOurs) this.set({ key: undefined, request: undefined, reservation: undefined });
  }

  clearPlace() {
    this.set({ ticket: undefined, pass: undefined, passUntil: undefined });
  }
}

/** One tab at a time, where the browser supports Web Locks. */
async function withLock(name, work) {
  try {
    return await navigator.locks.request(name, work);
  } catch {
    return work();
  }
}

/** 128 random bits. `crypto.randomUUID` exists in secure contexts only. */
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), hex).join("");
const hex = (byte) => byte.toString(16).padStart(2, "0");

/** Whether this browser has a purchase to resume in this sale: of `buyer` if given, else of anyone. */
export function hasBegun(saleId, buyer) {
  const prefix = `${PREFIX}${saleId}:`;
  if (buyer !== undefined) return new SaleStorage(saleId, buyer).hasBegun;
  const names = [...inMemory.keys(), ...Object.keys(localStorageOrNull() ?? {})];
  return names.some((name) => name.startsWith(prefix) && new SaleStorage(saleId, name.slice(prefix.length)).hasBegun);
}
