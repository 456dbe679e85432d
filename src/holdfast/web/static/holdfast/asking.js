/** Asking the server: who asks, what its refusals are, and when it is worth asking again. */
import { rest } from "./rest.js";

const PATIENCE_MS = 15_000;
const FIRST_WAIT_MS = 700;
const LONGEST_WAIT_MS = 15_000;
/** Nothing is wrong with what was asked; the moment was. */
const TRANSIENT = new Set(["busy", "not_ready", "rate_limited", "outcome_unknown", "request_timeout", "internal_error"]);

/** The server said no. `reason` is stable; `problem` is all it said. */
export class Refusal extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.reason);
    this.problem = problem;
    this.reason = problem.reason;
  }
}

/** Nobody answered. */
export class Unreachable extends Error {}

export class Stopped extends Error {}

export class Asker {
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

  /** One attempt: `{status, body}`, or an error. With `signed` it is the buyer who asks. */
  async once(method, path, { body, headers = {}, signed = true } = {}) {
    const answer = await this.#send(method, path, body, headers, signed);
    if (answer.status === 401 && signed) {
      await this.#tokens.renew();
      return this.#read(await this.#send(method, path, body, headers, signed));
    }
    return this.#read(answer);
  }

  /** Until there is an answer: a lost network and a busy server are waited for. A refusal is an error. */
  async ask(method, path, given = {}) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const answer = await this.once(method, path, given);
        this.#onTrouble(null);
        return answer;
      } catch (error) {
        if (this.#signal.aborted) throw new Stopped();
        if (!isTransient(error)) throw error;
        await this.#pause(error, attempt);
      }
    }
  }

  /** A stream of events, as the raw answer, for as long as `signal` lets it. */
  async stream(path, lastEventId, signal) {
    const headers = { accept: "text/event-stream", ...(lastEventId && { "last-event-id": lastEventId }) };
    return this.#fetch("GET", path, undefined, headers, true, AbortSignal.any([this.#signal, signal]));
  }

  async #pause(error, attempt) {
    const isOffline = error instanceof Unreachable;
    this.#onTrouble({ kind: isOffline ? "offline" : "busy", reason: error.reason ?? null });
    await rest(Math.max(error.problem?.retry_after_ms ?? 0, backoff(attempt)), this.#signal, { wakes: isOffline });
  }

  async #send(method, path, body, headers, signed) {
    const sentAt = Date.now();
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(PATIENCE_MS)]);
    const answer = await this.#fetch(method, path, body, headers, signed, signal);
    // What came out of a cache tells the time it was put in.
    if (!answer.headers.has("age")) this.#clock.note(answer.headers.get("date"), sentAt, Date.now());
    return answer;
  }

  async #fetch(method, path, body, headers, signed, signal) {
    const type = body === undefined ? {} : { "content-type": "application/json" };
    try {
      const authorization = signed ? { authorization: `Bearer ${await this.#tokens.current()}` } : {};
      return await fetch(this.#origin + path, {
        method,
        headers: { ...authorization, ...type, ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "omit",
        signal,
      });
    } catch (error) {
      if (this.#signal.aborted) throw new Stopped();
      throw error instanceof Refusal ? error : new Unreachable(String(error));
    }
  }

  async #read(answer) {
    const body = answer.status === 204 ? null : await bodyOf(answer);
    if (answer.ok) return { status: answer.status, body };
    const problem = body?.reason ? body : { reason: reasonOf(answer.status) };
    const seconds = Number(answer.headers.get("retry-after"));
    throw new Refusal({ ...(seconds > 0 && { retry_after_ms: seconds * 1000 }), status: answer.status, ...problem });
  }
}

/** An answer that breaks off is none. What is no JSON was said by somebody in between, such as a proxy. */
async function bodyOf(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (answer.ok || !(error instanceof SyntaxError)) throw new Unreachable(String(error));
    return null;
  }
}

function reasonOf(status) {
  if (status >= 500 || status === 408) return "internal_error";
  return { 401: "unauthorized", 403: "forbidden", 429: "rate_limited" }[status] ?? "not_found";
}

export const isTransient = (error) => error instanceof Unreachable || TRANSIENT.has(error.reason);

/** Twice as long each time, and never all at once: at least half of it, at random. */
export function backoff(attempt, random = Math.random) {
  return Math.min(FIRST_WAIT_MS * 2 ** attempt, LONGEST_WAIT_MS) * (0.5 + random() / 2);
}
