import { type Call, queryOf, type StreamEvent } from "./call.js";
import { HoldfastError, NoAnswer, Problem, UnexpectedAnswer, Unreachable, WaitTimedOut } from "./errors.js";
import { Operations } from "./operations.js";
import { readEvents } from "./stream.js";
import type { Reservation, SaleReservation } from "./types.js";

export interface Options {
  /** For each attempt. */
  timeoutMs: number;
  /** 1: never send again. */
  attempts: number;
  /** The pause doubles from the first to the longest, and a random part of it is taken. */
  firstPauseMs: number;
  longestPauseMs: number;
  fetch: typeof fetch;
}

const DEFAULTS: Options = {
  timeoutMs: 10_000,
  attempts: 5,
  firstPauseMs: 200,
  longestPauseMs: 5_000,
  fetch: (...args) => fetch(...args),
};
const FINAL: readonly string[] = ["confirmed", "failed", "cancelled", "expired"];
/** Of one long poll: well below what proxies wait for an answer. */
const LONGEST_WAIT_S = 20;
const RETRY_STATUSES = [408, 429, 503];
/** A proxy gave up: the server may have done it all the same. */
const LOST_STATUSES = [502, 504];
/** With these nothing has been sent. Only node tells. */
const NOT_SENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/** `new Client(url, { key })`, where `key` is a service key or a buyer's token. */
export class Client extends Operations {
  readonly #url: string;
  readonly #key: string | undefined;
  readonly #options: Options;

  constructor(url: string, { key, ...options }: { key?: string | undefined } & Partial<Options> = {}) {
    super();
    if (!isServer(url)) throw new TypeError(`${url} is not the URL of a server; use one such as https://shop.example.com`);
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#options = { ...DEFAULTS, ...options };
  }

  /** The same caller with other options: `client.with({ attempts: 1 }).reserve(…)`. */
  with(changes: Partial<Options>): Client {
    return new Client(this.#url, { key: this.#key, ...this.#options, ...changes });
  }

  /** Send it, and send it again where that is safe. */
  override async run<T>(call: Call<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(attempt === 1 ? call : marked(call));
      } catch (error) {
        if (attempt >= this.#options.attempts || !mayRepeat(call, error)) throw error;
        await sleep(this.#pauseMs(attempt, error));
      }
    }
  }

  /** Events as they come, until the server ends the stream. It is not opened again by itself. */
  override async *stream(call: Call<never>): AsyncGenerator<StreamEvent> {
    const response = await this.#send(call, undefined);
    if (response.status === 200 && response.body) yield* readEvents(response.body);
    else if (!(response.status in call.answers)) throw await failureOf(call, response);
  }

  /** The reservation once its status is one of `until`, or its payment was declined. The server answers when it changes. */
  async waitFor(
    reservation: string | { reservation_id: string },
    { until = FINAL, timeoutMs = 60_000 }: { until?: readonly string[]; timeoutMs?: number } = {},
  ): Promise<Reservation | SaleReservation> {
    const id = typeof reservation === "string" ? reservation : reservation.reservation_id;
    const giveUpAt = Date.now() + timeoutMs;
    let before = "";
    let waitS = 0;
    let pauseMs = 100;
    for (;;) {
      const askedAt = Date.now();
      const found = await this.getReservation(id, waitS > 0 ? { wait: waitS } : {});
      // A payment that was declined leaves the reservation active, to be tried again: that, too, is decided.
      if (until.includes(found.status) || (before === "settling" && found.status === "active")) return found;
      const now = Date.now();
      const leftMs = giveUpAt - now;
      if (leftMs <= 0) throw new WaitTimedOut(`${id} was still ${found.status} after ${timeoutMs} ms.`);
      // The server answers at once if it has no place for a long poll: then look at longer and longer intervals.
      if (found.status === before && (waitS === 0 || now - askedAt < waitS * 1_000)) {
        await sleep(Math.min(pauseMs, leftMs));
        pauseMs = Math.min(pauseMs * 1.5, 2_000);
      }
      before = found.status;
      waitS = Math.floor(Math.min(leftMs / 1_000, LONGEST_WAIT_S));
    }
  }

  protected override async *pages<T>(
    next: (after?: string) => Call<{ data: T[]; has_more: boolean }>,
    cursor: keyof T,
  ): AsyncGenerator<T> {
    let after: string | undefined;
    for (;;) {
      const page = await this.run(next(after));
      yield* page.data;
      const last = page.data[page.data.length - 1];
      if (!page.has_more || last === undefined || last === null) return;
      after = String(last[cursor]);
    }
  }

  async #once<T>(call: Call<T>): Promise<T> {
    const response = await this.#send(call, AbortSignal.timeout(this.#options.timeoutMs + waitMs(call)));
    const kind = call.answers[response.status];
    if (kind === undefined) throw await failureOf(call, response);
    if (kind === "nothing") return null as T;
    const text = await textOf(call, response);
    if (kind === "text") return text as T;
    try {
      return JSON.parse(text) as T;
    } catch {
      throw new UnexpectedAnswer(`${call.method} ${call.path} did not answer with JSON.`);
    }
  }

  async #send(call: Call<unknown>, signal: AbortSignal | undefined): Promise<Response> {
    const headers = new Headers({ Accept: "application/json, */*;q=0.5" });
    if (this.#key !== undefined) headers.set("Authorization", `Bearer ${this.#key}`);
    for (const [name, value] of Object.entries(call.headers ?? {})) if (value !== undefined) headers.set(name, value);
    const request: RequestInit = { method: call.method, headers };
    if (signal) request.signal = signal;
    if (call.body) {
      headers.set("Content-Type", "application/json");
      request.body = JSON.stringify(call.body);
    }
    try {
      return await this.#options.fetch(this.#url + call.path + queryOf(call), request);
    } catch (error) {
      throw lost(call, error);
    }
  }

  /** At least as long as the server asks for; the random part keeps clients from returning all at once. */
  #pauseMs(attempt: number, error: unknown): number {
    const asked = error instanceof Problem ? (error.retryAfterS ?? 0) * 1_000 : 0;
    return asked + Math.random() * Math.min(this.#options.longestPauseMs, this.#options.firstPauseMs * 2 ** (attempt - 1));
  }
}

/** A proxy that answers for a sold-out sale lets retries through: the first attempt may have won. */
function marked<T>(call: Call<T>): Call<T> {
  return call.idempotencyKey === undefined ? call : { ...call, headers: { ...call.headers, "Holdfast-Retry": "1" } };
}

/** How long the server may wait before it answers: a long poll. */
function waitMs(call: Call<unknown>): number {
  return Number(call.query?.["wait"] ?? 0) * 1_000;
}

/** If nothing was changed, or if doing it twice is the same as once. */
function mayRepeat(call: Call<unknown>, error: unknown): boolean {
  if (error instanceof Unreachable) return true;
  if (error instanceof NoAnswer) return call.isRepeatable;
  if (!(error instanceof Problem) || !error.retryable || !RETRY_STATUSES.includes(error.status)) return false;
  return call.isRepeatable || error.reason !== "outcome_unknown";
}

async function failureOf(call: Call<unknown>, response: Response): Promise<HoldfastError> {
  const text = await textOf(call, response);
  if (response.headers.get("content-type")?.startsWith("application/problem+json")) {
    const seconds = response.headers.get("retry-after") ?? "";
    return new Problem(response.status, parsed(text), /^\d+$/.test(seconds) ? Number(seconds) : undefined);
  }
  if (LOST_STATUSES.includes(response.status)) {
    return new NoAnswer(`A proxy answered ${response.status} for the server.`, call.idempotencyKey);
  }
  return new UnexpectedAnswer(`${call.method} ${call.path} answered ${response.status} without a problem document.`);
}

async function textOf(call: Call<unknown>, response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw lost(call, error);
  }
}

function lost(call: Call<unknown>, error: unknown): HoldfastError {
  const cause = (error as { cause?: { code?: string } }).cause?.code ?? "";
  const said = cause || String(error);
  if (NOT_SENT.includes(cause)) return new Unreachable(`No connection: ${said}`);
  return new NoAnswer(`${call.method} ${call.path} got no answer: ${said}`, call.idempotencyKey);
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** In a page, a path is one on its own server. */
function isServer(url: string): boolean {
  const page = globalThis.location?.href;
  return URL.canParse(url, page) && new URL(url, page).protocol.startsWith("http");
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
