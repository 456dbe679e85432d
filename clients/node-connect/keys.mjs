/**
 * A cache of the public keys that Holdfast publishes.
 *
 * Keys are fetched when first needed, and again when they are old or a pass names an unknown key: keys were rotated, or the
 * pass is forged. The pause between two fetches limits the load from forged ones. If keys cannot be fetched again, the
 * cached ones stay valid. If there never were any, nobody is admitted.
 */
const FRESH_MS = 300_000;
const PAUSE_MS = 10_000;
const FETCH_TIMEOUT_MS = 3_000;
const MAX_KEYS = 100;

export class KeysUnknown extends Error {}

export class PublishedKeys {
  #url;
  #fetch;
  #now;
  #keys = new Map();
  #fetchedAt = -Infinity;
  #triedAt = -Infinity;
  #pending = null;

  /** `url` is the JWKS URL. */
  constructor(url, { fetch = globalThis.fetch, now = Date.now } = {}) {
    if (!/^https?:$/.test(new URL(url).protocol)) throw new TypeError(`${url} must be an http or https URL`);
    this.#url = url;
    this.#fetch = fetch;
    this.#now = now;
  }

  /** The key by its id, or null. Throws `KeysUnknown` if no keys could be fetched yet. */
  async get(keyId) {
    const isOld = this.#now() - this.#fetchedAt > FRESH_MS;
    if ((isOld || !this.#keys.has(keyId)) && this.#now() - this.#triedAt >= PAUSE_MS) await this.#refresh();
    else if (this.#pending) await this.#pending;
    if (this.#fetchedAt === -Infinity) throw new KeysUnknown(`the keys at ${this.#url} could not be fetched yet`);
    return this.#keys.get(keyId) ?? null;
  }

  /** Concurrent callers share one fetch. */
  #refresh() {
    this.#pending ??= this.#load().finally(() => {
      this.#triedAt = this.#now();
      this.#pending = null;
    });
    return this.#pending;
  }

  async #load() {
    try {
      const answer = await this.#fetch(this.#url, { signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const { keys } = await answer.json();
      this.#keys = new Map(await Promise.all(keys.slice(0, MAX_KEYS).filter(isEd25519).map(imported)));
      this.#fetchedAt = this.#now();
    } catch (error) {
      console.warn(`the keys at ${this.#url} could not be fetched: ${error}`);
    }
  }
}

const isEd25519 = ({ kty, crv, kid }) => kty === "OKP" && crv === "Ed25519" && typeof kid === "string";

async function imported({ kid, x }) {
  const jwk = { kty: "OKP", crv: "Ed25519", x };
  return [kid, await crypto.subtle.importKey("jwk", jwk, { name: "Ed25519" }, false, ["verify"])];
}
