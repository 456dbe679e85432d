// Computes the order of a lottery from the published values, as docs/LOTTERY.md specifies. Pure: no page, no network.

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
/** What is mixed into the draw after the list is closed. */
export const beaconOf = (digest, value) => sha256OfText(`${digest}\n${value}`);
export const entryOf = (saleId, buyerId, ticketId) => sha256OfText(`${saleId}\n${buyerId}\n${ticketId}`);

/** Caches its hashes: computing all places takes about 24 · √n of them. */
export class Order {
  #key;
  #draws = new Map();

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

  /** The place of an entry; 0 is served first. Late joiners follow in arrival order. */
  async placeOf(number) {
    if (number >= this.entrants) return number;
    let cell = number;
    do cell = await this.#shuffled(cell);
    while (cell >= this.entrants);
    return cell;
  }

  /** The number of the entry at each place. Throws if a place was assigned twice. */
  async numbers() {
    const at = new Array(this.entrants).fill(-1);
    for (let number = 0; number < this.entrants; number++) {
      const place = await this.placeOf(number);
      if (at[place] !== -1) throw new Error(`place ${place} was assigned twice`);
      at[place] = number;
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
    let drawn = this.#draws.get(name);
    if (drawn === undefined) {
      drawn = hmac(this.#key, name).then((code) => {
        const number = code.slice(0, 6).reduce((sum, byte) => sum * 256 + byte, 0);
        this.#draws.set(name, number);
        return number;
      });
      this.#draws.set(name, drawn);
    }
    return drawn;
  }
}
