/** Screen-reader announcements and the tab title: every change of state, but in line only milestones. */
import { number } from "./format.js";

const MILESTONES = [1000, 500, 200, 100, 50, 20, 10, 5, 2];
const LAST_MINUTE_MS = 60_000;

/** The last milestone passed. It changes rarely, while the number ahead changes all the time. */
export const milestone = (ahead) => MILESTONES.filter((step) => step >= ahead).at(-1) ?? null;

/** `[title, text, action]` for a refusal. At the buyer limit without an order, the units are in another cart. */
export function refusalOf({ reason, problem }, t) {
  if (reason === "buyer_limit" && problem?.orders?.length === 0) return t.refused.buyer_limit_in_cart;
  return t.refused[reason] ?? t.refused.other;
}

export function headingOf({ state, t }) {
  const name = state?.name ?? "";
  if (name === "waiting") return state.ahead === 0 ? t.waiting.next : t.waiting.title;
  if (name === "hoping") return { sale_paused: t.hoping.paused, sale_not_open: t.hoping.notOpen }[state.reason] ?? t.hoping.title;
  if (name === "refused") return refusalOf(state, t)[0];
  if (name === "confirmed") return t.confirmed.titles[state.order?.status] ?? t.confirmed.title;
  const titles = { proving: t.proving, admitted: t.turn, reserving: t.turn, cart: t.cart, paying: t.paying };
  return { ...titles, declined: t.declined }[name]?.title ?? "";
}

export function announcementOf(page) {
  const { state, t, language, clock } = page;
  if (state === null) return "";
  if (state.trouble) return t.trouble[state.trouble.kind];
  const passed = state.name === "waiting" && state.ahead > 0 ? milestone(state.ahead) : null;
  if (passed !== null) return `${headingOf(page)}. ≤ ${number(passed, language)} ${t.waiting.ahead(passed)}.`;
  if (state.name === "cart" && state.expiresAt - clock() < LAST_MINUTE_MS) return t.cart.hurry;
  return headingOf(page);
}

export function titleOf(page) {
  const { state, sale, language } = page;
  const name = sale?.name ?? "Holdfast";
  if (state?.name === "waiting" && state.ahead !== null) return `(${number(state.ahead, language)}) ${name}`;
  const heading = headingOf(page);
  return heading ? `${heading} · ${name}` : name;
}
