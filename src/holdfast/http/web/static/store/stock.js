/** The stock badge. */
import { number } from "./format.js";
import { html } from "./html.js";

/** The exact number is shown from here down. */
const FEW = 20;
const KINDS = { open: "good", all_held: "warn", paused: "warn", sold_out: "", ended: "", upcoming: "" };

export function stockText(now, t, language) {
  const { state, available_hint: left } = now;
  if (state === "open" && left > 0 && left <= FEW) return t.stock.fewLeft(number(left, language));
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
