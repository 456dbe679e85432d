/** One call of the API before it is sent. `T` is what the caller gets. Nothing is sent from here. */
export interface Call<T> {
  method: string;
  path: string;
  /** What each status that means success brings. */
  answers: Record<number, "json" | "text" | "events" | "nothing">;
  query?: Record<string, unknown>;
  headers?: Record<string, string | undefined>;
  body?: Record<string, unknown>;
  /** Under which a repeat is known for one. It stays the same through all attempts. */
  idempotencyKey?: string;
  /** Whether it may be sent again if it is not known whether it was carried out. */
  isRepeatable: boolean;
  /** Never there: it only says what `T` is. */
  answer?: T;
}

/** `id` continues a stream that broke off: pass it as `last_event_id`. */
export interface StreamEvent {
  id: string;
  event: string;
  data: Record<string, unknown>;
}

/** The path with its parameters, in order. */
export function pathOf(template: string, ...values: string[]): string {
  let next = 0;
  return template.replace(/\{[a-z_]+\}/g, () => encodeURIComponent(values[next++] ?? ""));
}

/** An idempotency key for a call that came without one, so that a repeat is carried out once. */
export function newKey(): string {
  return `auto-${crypto.randomUUID()}`;
}

/** The part of an address after `?`; what was not given is left out. */
export function queryOf(call: Call<unknown>): string {
  const given = Object.entries(call.query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}
