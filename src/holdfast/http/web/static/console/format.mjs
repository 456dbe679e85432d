// Formatting, and labels for codes of the API.
const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dated = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const time = (at) => (at === null ? "–" : clock.format(new Date(at)));
export const dateTime = (at) => (at ? dated.format(new Date(at)) : "–");

/** A rate per second. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 && value !== 0 ? value.toFixed(1) : whole.format(Math.round(value));
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} s`;
  return `${value < 10 && value !== 0 ? value.toFixed(1) : Math.round(value)} ms`;
}

export function seconds(value) {
  if (value < 60) return `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)} s`;
  return value < 3600 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`;
}

export function share(part, all) {
  if (!all) return "";
  const percent = (100 * part) / all;
  return percent > 0 && percent < 1 ? "< 1 %" : `${Math.round(percent)} %`;
}

export function price({ amount, currency }) {
  try {
    const format = new Intl.NumberFormat("en", { style: "currency", currency });
    return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
  } catch {
    return `${amount} ${currency}`;
  }
}

/** A typed amount in the currency's minor unit; NaN if it is not a number. */
export function minorUnits(text, currency) {
  let digits = 2;
  try {
    digits = new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
  } catch {
    // An invalid currency is reported by the server.
  }
  return Math.round(Number(text) * 10 ** digits);
}

export const PHASES = {
  upcoming: ["Upcoming", ""],
  open: ["Open", "good"],
  all_held: ["All in carts", "warn"],
  sold_out: ["Sold out", ""],
  paused: ["Paused", "warn"],
  ended: ["Ended", ""],
};

export const PACING = {
  not_open: "Not open yet",
  paused: "Paused: nobody is admitted",
  line_empty: "Nobody is waiting",
  sold_out: "Sold out: nobody else is admitted",
  ended: "Ended: nobody else is admitted",
  stock: "Waiting for stock: people already admitted may buy all units",
  gate_slow: "Slowed down: high reservation latency",
  settlement_slow: "Slowed down: payments are behind",
  recovering: "Recovering to the target rate",
  target: "At the target rate",
};

// What is off while a server is loaded, so that purchases go on.
const FEATURES = { odds: "odds in line", audit_search: "search in the audit", event_streams: "event streams", optional_reads: "timelines of buyers" };
export const features = (names) => names.map((name) => FEATURES[name] ?? name.replaceAll("_", " ")).join(", ");

export const OUTCOMES = {
  key_reused: "Idempotency key reused",
  pool_not_found: "Pool not found",
  not_ready: "Gate not ready",
  not_open: "Not open yet",
  paused: "Paused",
  ended: "Ended",
  tier_required: "Tier required",
  buyer_limit: "Buyer limit",
  hold_budget: "Too many unpaid carts",
  insufficient: "Not enough left",
  all_held: "All in carts",
  sold_out: "Sold out",
};

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
