/** Money, numbers, times and durations in the reader's language. Pure: the current time is passed in. */

export function money({ amount, currency }, language) {
  const style = new Intl.NumberFormat(language, { style: "currency", currency });
  return style.format(amount / 10 ** style.resolvedOptions().maximumFractionDigits);
}

export const number = (value, language) => new Intl.NumberFormat(language).format(value);

export const percent = (part, language) =>
  new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 }).format(part);

export const clockTime = (ms, language, seconds = false) =>
  new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", ...(seconds && { second: "2-digit" }) }).format(ms);

export const isSameDay = (ms, now) => new Date(ms).toDateString() === new Date(now).toDateString();

/** The time, and the date unless it is today. */
export function dateTime(ms, now, language) {
  const date = { weekday: "long", day: "numeric", month: "long" };
  const at = { hour: "2-digit", minute: "2-digit" };
  return new Intl.DateTimeFormat(language, isSameDay(ms, now) ? at : { ...date, ...at }).format(ms);
}

export const fullTime = (ms, language) => new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(ms);

const LENGTHS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

/** A length of time in one unit, such as "42 seconds". From two of a unit on, that one is used. */
export function duration(seconds, language) {
  const [unit, length] = LENGTHS.find(([, each]) => seconds >= 2 * each) ?? LENGTHS.at(-1);
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format(Math.max(Math.round(seconds / length), 1));
}

/** A countdown such as 4:58 or 1:02:03. Never negative. */
export function countdown(ms) {
  const total = Math.max(Math.ceil(ms / 1000), 0);
  const [hours, minutes, seconds] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const rest = `${hours ? String(minutes).padStart(2, "0") : minutes}:${String(seconds).padStart(2, "0")}`;
  return hours ? `${hours}:${rest}` : rest;
}

/** Days, hours, minutes and seconds left, without leading units that are zero. */
export function parts(ms) {
  const total = Math.max(Math.ceil(ms / 1000), 0);
  const all = [
    ["days", Math.floor(total / 86_400)],
    ["hours", Math.floor(total / 3600) % 24],
    ["minutes", Math.floor(total / 60) % 60],
    ["seconds", total % 60],
  ];
  const first = all.findIndex(([, value]) => value > 0);
  return all.slice(first < 0 ? 2 : Math.min(first, 2));
}
