/** The buyer's token: a string, or a function that fetches one from the shop's login. */
import { ApiError } from "./api.js";

/** Renew a token that expires sooner than this. */
const EXPIRY_MARGIN_MS = 20_000;

export class Tokens {
  #fetch;
  #token = null;
  #pending = null;

  constructor(source) {
    this.#fetch = typeof source === "function" ? source : async () => source;
  }

  async current() {
    return this.#token !== null && !isExpiring(this.#token) ? this.#token : this.renew();
  }

  /** Concurrent callers share one fetch. */
  renew() {
    this.#pending ??= this.#renew().finally(() => (this.#pending = null));
    return this.#pending;
  }

  async #renew() {
    let token = null;
    try {
      token = await this.#fetch();
    } catch (error) {
      if (error instanceof TypeError) throw error; // fetch throws this when the network is down: not a login failure.
      throw new ApiError({ reason: "unauthorized", status: 401, detail: String(error) });
    }
    if (!token) throw new ApiError({ reason: "unauthorized", status: 401, detail: "the login returned no token" });
    this.#token = token;
    return token;
  }
}

/** The token's subject, or "" if it has none. */
export const buyerOf = (token) => claimsOf(token).sub ?? "";

/** Decodes a JWT without verifying it; the server does that. */
function claimsOf(token) {
  try {
    const text = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
  }
}

const isExpiring = (token) => (claimsOf(token).exp ?? Infinity) * 1000 - Date.now() < EXPIRY_MARGIN_MS;
