/** The stock badge. */
import { clockTime, number } from "./format.js";
import { html } from "./html.js";

/** The exact number is shown from here down. */
const FEW = 20;
const KINDS = { open: "good", all_held: "warn", paused: "warn", sold_out: "", ended: "", upcoming: "" };

export function stockText(now, t, language) {
  const { state, available_hint: left, next_return_at: returns } = now;
  if (state === "open" && left > 0 && left <= FEW) return t.stock.fewLeft(number(left, language));
  if (state === "all_held" && returns) return t.stock.all_heldAt(clockTime(Date.parse(returns), language, true));
  return t.stock[state];
}

export function Stock({ now, t, language }) {
  if (now === null) return html`<p class="stock"><span class="tag">${t.page.loading}</span></p>`;
  return html`
    <p class="stock">
      <span class=${`tag ${KINDS[now.state]}`}><span class="dot" aria-hidden="true"></span>${stockText(now, t, language)}</span>
    </p>
  `;
}
