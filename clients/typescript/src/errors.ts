import type { Reason } from "./reasons.js";

/** All that a call can throw. */
export class HoldfastError extends Error {
  override name = this.constructor.name;
}

/** The server refused (RFC 9457). `members` are the fields that only this problem has, such as `available`. */
export class Problem extends HoldfastError {
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly reason: Reason | (string & {});
  readonly retryable: boolean;
  readonly members: Record<string, unknown>;

  constructor(readonly status: number, document: Record<string, unknown>, readonly retryAfterS?: number) {
    const { type, title, detail, reason, retryable, status: _, ...members } = document;
    super(`${status} ${String(reason ?? "unknown")}: ${String(detail ?? title ?? "Refused")}`);
    this.type = String(type ?? "about:blank");
    this.title = String(title ?? "Refused");
    this.detail = String(detail ?? "");
    this.reason = String(reason ?? "unknown");
    this.retryable = retryable === true;
    this.members = members;
  }
}

/** No connection: nothing was sent. Browsers do not tell, so there it is `NoAnswer`. */
export class Unreachable extends HoldfastError {}

/** It was sent, and it is not known whether it was carried out. The same key finds the outcome. */
export class NoAnswer extends HoldfastError {
  constructor(message: string, readonly idempotencyKey?: string) {
    super(message);
  }
}

/** A proxy answered, or a server of another kind. */
export class UnexpectedAnswer extends HoldfastError {}

/** `waitFor` waited as long as it was told to. */
export class WaitTimedOut extends HoldfastError {}

/** Do not act on this webhook; answer 401. */
export class InvalidSignature extends HoldfastError {}

/** For `catch`: whether this is the refusal for this reason. */
export function isProblem(error: unknown, reason: Reason): error is Problem {
  return error instanceof Problem && error.reason === reason;
}
