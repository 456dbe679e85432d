// Figures, times and outcomes as people read them.
const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dated = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const time = (at) => (at === null ? "–" : clock.format(new Date(at)));
export const moment = (at) => (at ? dated.format(new Date(at)) : "–");

/** Of something per second. */
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

/** An amount as it is typed, in the currency's smallest unit; NaN if it is none. */
export function minorUnits(text, currency) {
  let digits = 2;
  try {
    digits = new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
  } catch {
    // The server says what is wrong with the currency.
  }
  return Math.round(Number(text) * 10 ** digits);
}

export const PHASES = {
  upcoming: ["Upcoming", ""],
  open: ["Selling", "good"],
  all_held: ["All in carts", "warn"],
  sold_out: ["Sold out", ""],
  paused: ["Paused", "warn"],
  ended: ["Ended", ""],
};

export const PACING = {
  not_open: "Not open yet",
  paused: "Paused: nobody is called",
  line_empty: "Nobody is waiting",
  stock: "Waits for stock: those inside may take all there is",
  gate_slow: "Eased off: the gate is slow",
  settlement_slow: "Eased off: payments are behind",
  recovering: "Growing back to its target",
  target: "At its target",
};

export const OUTCOMES = {
  key_reused: "Key reused",
  pool_not_found: "No such pool",
  not_ready: "Gate not ready",
  not_open: "Not open yet",
  paused: "Paused",
  ended: "Ended",
  tier_required: "Tier required",
  buyer_limit: "Buyer's limit",
  hold_budget: "Hold budget",
  insufficient: "Too few left",
  all_held: "All in carts",
  sold_out: "Sold out",
};

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
