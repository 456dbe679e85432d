/** The buyer's token: a text, or a function that fetches one from the shop's login. */
import { Refusal } from "./asking.js";

/** A token this close to its end is not begun with. */
const SPARE_MS = 20_000;

export class Tokens {
  #fetch;
  #token = null;
  #fetching = null;

  constructor(given) {
    this.#fetch = typeof given === "function" ? given : async () => given;
  }

  async current() {
    return this.#token !== null && !isEnding(this.#token) ? this.#token : this.renew();
  }

  /** Asked for once, however many want it. */
  renew() {
    this.#fetching ??= this.#renew().finally(() => (this.#fetching = null));
    return this.#fetching;
  }

  async #renew() {
    let token = null;
    try {
      token = await this.#fetch();
    } catch (error) {
      if (error instanceof TypeError) throw error; // No network: that is another matter than no login.
      throw new Refusal({ reason: "unauthorized", status: 401, detail: String(error) });
    }
    if (!token) throw new Refusal({ reason: "unauthorized", status: 401, detail: "there is no token" });
    this.#token = token;
    return token;
  }
}

/** Whom a token is for, as far as it says. */
export const buyerOf = (token) => claimsOf(token).sub ?? "";

/** What a JWT says. It is the server who checks it. */
function claimsOf(token) {
  try {
    const text = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}

const isEnding = (token) => (claimsOf(token).exp ?? Infinity) * 1000 - Date.now() < SPARE_MS;
