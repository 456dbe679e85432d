/** The HTTP client: authentication, timeouts, errors and retries. */
import { retryDelay, sleep } from "./backoff.js";

const REQUEST_TIMEOUT_MS = 15_000;
/** Refusals that say nothing about the request itself: retry it unchanged. */
const TRANSIENT = new Set(["busy", "not_ready", "rate_limited", "outcome_unknown", "request_timeout", "internal_error"]);

/** The server refused. `reason` is a stable code, `problem` the whole problem document. */
export class ApiError extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.reason);
    this.problem = problem;
    this.reason = problem.reason;
  }
}

/** No response, or an incomplete one. */
export class NetworkError extends Error {}

export class AbortedError extends Error {}

export class ApiClient {
  #origin;
  #clock;
  #tokens;
  #signal;
  #onTrouble;

  constructor({ origin, clock, tokens, signal, onTrouble }) {
    this.#origin = origin;
    this.#clock = clock;
    this.#tokens = tokens;
    this.#signal = signal;
    this.#onTrouble = onTrouble;
  }

  /** One attempt: `{status, body}`, or an error. Sends the buyer's token if `signed`. `cache` is that of `fetch`. */
  async requestOnce(method, path, { body, headers = {}, signed = true, cache = "default" } = {}) {
    const response = await this.#send(method, path, body, headers, signed, cache);
    if (response.status === 401 && signed) {
      await this.#tokens.renew();
      return this.#read(await this.#send(method, path, body, headers, signed, cache));
    }
    return this.#read(response);
  }

  /**
   * Retries network failures and transient refusals until there is an answer. Throws other refusals as `ApiError`.
   * `retryHeaders` are sent with retries only.
   */
  async request(method, path, options = {}) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const headers = { ...options.headers, ...(attempt > 0 && options.retryHeaders) };
        const response = await this.requestOnce(method, path, { ...options, headers });
        this.#onTrouble(null);
        return response;
      } catch (error) {
        if (this.#signal.aborted) throw new AbortedError();
        if (!isTransient(error)) throw error;
        await this.#backOff(error, attempt);
      }
    }
  }

  /** The raw response of an event stream; `signal` closes it. */
  async openStream(path, lastEventId, signal) {
    const headers = { accept: "text/event-stream", ...(lastEventId && { "last-event-id": lastEventId }) };
    return this.#fetch("GET", path, undefined, headers, true, AbortSignal.any([this.#signal, signal]));
  }

  async #backOff(error, attempt) {
    const isOffline = error instanceof NetworkError;
    this.#onTrouble({ kind: isOffline ? "offline" : "busy", reason: error.reason ?? null });
    const delay = Math.max(error.problem?.retry_after_ms ?? 0, retryDelay(attempt));
    await sleep(delay, this.#signal, { wakeEarly: isOffline });
  }

  async #send(method, path, body, headers, signed, cache) {
    const sentAt = Date.now();
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    const response = await this.#fetch(method, path, body, headers, signed, signal, cache);
    // A cached response carries the Date at which it was stored.
    if (!response.headers.has("age")) this.#clock.observe(response.headers.get("date"), sentAt, Date.now());
    return response;
  }

  async #fetch(method, path, body, headers, signed, signal, cache = "default") {
    const type = body === undefined ? {} : { "content-type": "application/json" };
    try {
      const authorization = signed ? { authorization: `Bearer ${await this.#tokens.current()}` } : {};
      return await fetch(this.#origin + path, {
        method,
        headers: { ...authorization, ...type, ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
        // A public document takes what the page has preloaded, which only counts if its credentials mode is the same.
        credentials: signed ? "omit" : "same-origin",
        cache,
        signal,
      });
    } catch (error) {
      if (this.#signal.aborted) throw new AbortedError();
      throw error instanceof ApiError ? error : new NetworkError(String(error));
    }
  }

  async #read(response) {
    const body = response.status === 204 ? null : await parseBody(response);
    if (response.ok) return { status: response.status, body };
    const problem = body?.reason ? body : { reason: reasonOf(response.status) };
    const seconds = Number(response.headers.get("retry-after"));
    throw new ApiError({ ...(seconds > 0 && { retry_after_ms: seconds * 1000 }), status: response.status, ...problem });
  }
}

/** A truncated body counts as no response. An error that is not JSON came from something in between, such as a proxy. */
async function parseBody(response) {
  try {
    return await response.json();
  } catch (error) {
    if (response.ok || !(error instanceof SyntaxError)) throw new NetworkError(String(error));
    return null;
  }
}

function reasonOf(status) {
  if (status >= 500 || status === 408) return "internal_error";
  return { 401: "unauthorized", 403: "forbidden", 429: "rate_limited" }[status] ?? "not_found";
}

export const isTransient = (error) => error instanceof NetworkError || TRANSIENT.has(error.reason);
