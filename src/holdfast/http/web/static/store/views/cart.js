/** The cart: price, time left, pay, extend or remove. */
import { countdown, money } from "../format.js";
import { html } from "../html.js";
import { useTime } from "../hooks.js";
import { checkoutLink } from "../return-to.js";
import { ConfirmButton } from "./confirm-button.js";
import { Pay } from "./pay.js";
import { useEffect } from "../../vendor/hooks.mjs";

const HURRY_MS = 60_000;
const EXTEND_S = 60;

export function CartView(page) {
  const { state, sale, t, language, buying, config } = page;
  const { reservation, isBusy, problem } = state;
  const price = money({ amount: reservation.amount, currency: reservation.currency }, language);
  const isExternal = sale.payment === "external";
  const link = isExternal ? checkoutLink(sale, reservation, config?.return_origins ?? []) : null;
  const declined = reservation.last_decline;
  return html`
    <${TimeLeft} ...${page} />
    <dl class="bill figures">
      <div class="total"><dt>${t.cart.quantity(reservation.quantity)} ${sale.name}</dt><dd>${price}</dd></div>
    </dl>
    ${link && html`<a class="button main large" href=${link.href}>${t.cart.payAt(link.host)}</a>`}
    ${declined && html`<${Declined} ...${page} />`}
    ${isExternal && html`<p class="note">${t.cart.external}</p>`}
    ${!isExternal && html`<${Pay} ...${page} price=${price} />`}
    ${problem && html`<p class="note warn" role="alert">${problemText(problem, t)}</p>`}
    <div class="foot">
      <${ExtendButton} ...${page} />
      <${ConfirmButton}
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

/** Says how much time it would add, and disappears once the hold is as long as it can be. */
function ExtendButton({ state, t, buying }) {
  const seconds = Math.min(Math.floor((state.latestExpiresAt - state.expiresAt) / 1000), EXTEND_S);
  if (seconds < 1) return html`<p class="note">${t.cart.extendLimit}</p>`;
  const label = t.cart.extend(seconds);
  return html`<button type="button" class="button plain" disabled=${state.isBusy} onClick=${() => buying.extend(seconds)}>
    ${label}
  </button>`;
}

/** It pushes the button to pay down; on a phone below the edge. */
function Declined({ state, t }) {
  const { last_decline: declined, attempts_left: left } = state.reservation;
  useEffect(() => document.querySelector("#panel .main")?.scrollIntoView({ block: "nearest" }), []);
  return html`
    <div class="note warn" role="alert">
      <p><b>${t.declined.title}.</b> ${t.declined.reasons[declined.code] ?? t.declined.reasons.other}</p>
      <p>${t.declined.kept} ${t.cart.attemptsLeft(left)}</p>
    </div>
  `;
}

const problemText = ({ reason }, t) =>
  reason === "extension_limit" ? t.cart.extendLimit : (t.refused[reason] ?? t.refused.other)[1];

/** The ring shows the time left as a share of the sale's hold time. An extended hold may exceed it and shows full. */
function TimeLeft({ state, sale, t, clock }) {
  const left = state.expiresAt - useTime(clock);
  const part = Math.min(Math.max(left / (sale.hold_seconds * 1000), 0), 1) * 100;
  return html`
    <div class=${left < HURRY_MS ? "time-left hurry" : "time-left"}>
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
