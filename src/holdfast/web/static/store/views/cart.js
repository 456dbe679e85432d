/** In the cart: what it costs, how long it is held, and the ways out. */
import { countdown, money } from "../figures.js";
import { html } from "../html.js";
import { useTime } from "../live.js";
import { Sure } from "./sure.js";

const HURRY_MS = 60_000;

export function CartView(page) {
  const { state, sale, t, language, buying } = page;
  const { reservation, isBusy, problem } = state;
  const price = money({ amount: reservation.amount, currency: reservation.currency }, language);
  const isExternal = sale.payment === "external";
  return html`
    <${Left} ...${page} />
    <dl class="bill figures">
      <div><dt>${t.cart.quantity(reservation.quantity)} ${sale.name}</dt><dd>${price}</dd></div>
      <div class="total"><dt>${t.cart.total}</dt><dd>${price}</dd></div>
    </dl>
    ${isExternal && html`<p class="note">${t.cart.external}</p>`}
    ${!isExternal &&
    html`<button type="button" class="button main large" disabled=${isBusy} onClick=${() => buying.pay()}>
      ${t.cart.pay(price)}
    </button>`}
    ${problem && html`<p class="note warn" role="alert">${problemText(problem, t)}</p>`}
    <div class="foot">
      <button type="button" class="button plain" disabled=${isBusy} onClick=${() => buying.extend()}>${t.cart.extend}</button>
      <${Sure}
        label=${t.cart.giveBack}
        question=${t.cart.giveBackSure}
        yes=${t.cart.giveBackYes}
        no=${t.cart.giveBackNo}
        disabled=${isBusy}
        onYes=${() => buying.giveBack()}
      />
    </div>
  `;
}

const problemText = ({ reason }, t) =>
  reason === "extension_limit" ? t.cart.extendLimit : (t.refused[reason] ?? t.refused.other)[1];

/** The ring shows what is left of the sale's own hold time; a longer hold begins full. */
function Left({ state, sale, t, clock }) {
  const left = state.expiresAt - useTime(clock);
  const part = Math.min(Math.max(left / (sale.hold_seconds * 1000), 0), 1) * 100;
  return html`
    <div class=${left < HURRY_MS ? "left hurry" : "left"}>
      <svg viewBox="0 0 120 120" aria-hidden="true">
        <circle cx="60" cy="60" r="54" />
        <circle class="moving" cx="60" cy="60" r="54" pathLength="100" stroke-dasharray=${`${part} 100`} />
      </svg>
      <p>
        <span>${t.cart.heldFor}</span>
        <b class="figures" role="timer">${countdown(left)}</b>
      </p>
    </div>
  `;
}
