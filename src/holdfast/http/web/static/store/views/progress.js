/** States that need no input: loading, the puzzle, the turn, waiting for stock, the payment. */
import { clockTime, countdown } from "../format.js";
import { html } from "../html.js";
import { useTime } from "../hooks.js";
import { askBank } from "../stripe.js";
import { useEffect, useState } from "../../vendor/hooks.mjs";
import { TellMe } from "./tell-me.js";

const SLOW_MS = 3_000;

export function Spinner() {
  return html`
    <svg class="spinner" viewBox="0 0 48 48" aria-hidden="true">
      <circle cx="24" cy="24" r="20" />
      <circle class="moving" cx="24" cy="24" r="20" pathLength="100" stroke-dasharray="28 72" />
    </svg>
  `;
}

export function LookingView({ t }) {
  return html`<div class="progress-row"><${Spinner} /><p>${t.page.loading}</p></div>`;
}

export function ProvingView({ t, state }) {
  const done = Math.round(state.progress * 100);
  return html`
    <progress max="100" value=${done} aria-label=${t.proving.label}>${done} %</progress>
    <p class="small">${t.proving.text}</p>
  `;
}

export function TurnView({ t }) {
  return html`<div class="progress-row"><${Spinner} /><p>${t.turn.text}</p></div>`;
}

export function PayingView(page) {
  const { t, state } = page;
  if (state.action) return html`<${BankAsks} ...${page} key=${state.action.client_secret ?? state.action.url} />`;
  return html`
    <div class="progress-row"><${Spinner} /><p>${t.paying.text}</p></div>
    <${TellIfSlow} ...${page} />
  `;
}

/** Most payments take a moment: nobody is asked for anything before. */
function TellIfSlow(page) {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(setSlow, SLOW_MS, true);
    return () => clearTimeout(timer);
  }, []);
  return isSlow && html`<${TellMe} ...${page} purpose="order" />`;
}

/** Stripe shows the bank's page in a frame, at once. Elsewhere the buyer goes to it, and comes back here. */
function BankAsks({ t, state, config, buying }) {
  const { client_secret: secret, url } = state.action;
  useEffect(() => {
    if (secret && config?.stripe) askBank(config.stripe, secret).finally(() => buying.answered());
  }, []);
  return html`
    <div class="progress-row"><${Spinner} /><p>${t.paying.bank}</p></div>
    ${url && html`<a class="button main large" href=${withReturn(url)}>${t.paying.toBank}</a>`}
    <p class="small">${t.paying.bankKept}</p>
  `;
}

function withReturn(url) {
  const target = new URL(url);
  target.searchParams.set("return_to", location.href);
  return target.href;
}

export function HopingView({ t, state, language, clock, buying }) {
  const time = useTime(clock, 500);
  const isPaused = state.reason === "sale_paused";
  return html`
    <div class="progress-row">
      <${Spinner} />
      <div>
        <p>${isPaused ? t.hoping.pausedText : t.hoping.text}</p>
        ${!isPaused && state.nextReturnAt && html`<p><b>${t.hoping.at(clockTime(state.nextReturnAt, language, true))}</b></p>`}
      </div>
    </div>
    ${state.passUntil && html`<p class="small figures">${t.hoping.until(countdown(state.passUntil - time))}</p>`}
    <div class="foot"><button type="button" class="button plain" onClick=${() => buying.leave()}>${t.hoping.leave}</button></div>
  `;
}
