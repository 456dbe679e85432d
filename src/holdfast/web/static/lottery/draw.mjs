// The order of a lottery, computed from what was published: docs/LOTTERY.md in JavaScript. No page, no network.

const { subtle } = globalThis.crypto;
const ROUNDS = 24;

const utf8 = (text) => new TextEncoder().encode(text);
const unhex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

const keyFrom = (raw) => subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
const hmac = async (key, text) => new Uint8Array(await subtle.sign("HMAC", key, utf8(text)));

export const sha256OfText = async (text) => hex(await subtle.digest("SHA-256", utf8(text)));
export const seedHash = async (seed) => hex(await subtle.digest("SHA-256", unhex(seed)));
export const digestOf = (entries) => sha256OfText(entries.map((entry) => `${entry}\n`).join(""));
export const entryOf = (saleId, buyerId, ticketId) => sha256OfText(`${saleId}\n${buyerId}\n${ticketId}`);

/** Keeps the hashes it has made: everyone's places take about 24 · √n of them in all. */
export class Order {
  #key;
  #drawn = new Map();

  constructor(key, entrants) {
    this.#key = key;
    this.entrants = entrants;
    this.width = Math.ceil(Math.sqrt(entrants));
    this.height = Math.ceil(entrants / this.width);
  }

  static async of({ saleId, seed, entrants, digest, beacon = "" }) {
    const facts = ["holdfast-lottery-1", saleId, entrants, digest, beacon].join("\n");
    return new Order(await keyFrom(await hmac(await keyFrom(unhex(seed)), facts)), entrants);
  }

  /** From 0, the first to be served. Late joiners follow in arrival order. */
  async placeOf(arrival) {
    if (arrival >= this.entrants) return arrival;
    let cell = arrival;
    do cell = await this.#shuffled(cell);
    while (cell >= this.entrants);
    return cell;
  }

  /** Everyone's: the arrival number at each place. Throws if two people had one place. */
  async arrivals() {
    const at = new Array(this.entrants).fill(-1);
    for (let arrival = 0; arrival < this.entrants; arrival++) {
      const place = await this.placeOf(arrival);
      if (at[place] !== -1) throw new Error(`place ${place} was given twice`);
      at[place] = arrival;
    }
    return at;
  }

  async #shuffled(cell) {
    let row = Math.floor(cell / this.width);
    let column = cell % this.width;
    for (let round = 0; round < ROUNDS; round += 2) {
      column = (column + ((await this.#draw(round, row)) % this.width)) % this.width;
      row = (row + ((await this.#draw(round + 1, column)) % this.height)) % this.height;
    }
    return row * this.width + column;
  }

  #draw(round, line) {
    const name = `${round}:${line}`;
    let drawn = this.#drawn.get(name);
    if (drawn === undefined) {
      drawn = hmac(this.#key, name).then((code) => {
        const number = code.slice(0, 6).reduce((sum, byte) => sum * 256 + byte, 0);
        this.#drawn.set(name, number);
        return number;
      });
      this.#drawn.set(name, drawn);
    }
    return drawn;
  }
}
