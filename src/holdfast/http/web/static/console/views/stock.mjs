// The stock bar: every unit is in exactly one of four states.
import { html } from "../html.mjs";
import { number, share } from "../format.mjs";

const STATES = [["available", "Available"], ["held", "In carts"], ["settling", "Paying"], ["sold", "Sold"]];

export function StockStrip({ stock }) {
  return html`<div class="strip" aria-hidden="true">${STATES.filter(([state]) => stock[state]).map(([state]) => html`<span key=${state} class="at-${state}" style=${{ flexGrow: stock[state] }}></span>`)}</div>`;
}

export function StockBar({ stock }) {
  const sum = STATES.reduce((all, [state]) => all + stock[state], 0);
  return html`<section class="stock figures" aria-label="Stock">
    <dl>${STATES.map(([state, label]) => html`<div key=${state} class="stock-figure at-${state}">
      <dt>${label}</dt><dd><b>${number(stock[state])}</b> <span>${share(stock[state], stock.total)}</span></dd></div>`)}
      <div class="stock-figure at-total"><dt>Total</dt><dd><b>${number(stock.total)}</b> <span>${sum === stock.total ? "balanced" : "mismatch"}</span></dd></div>
    </dl>
    <${StockStrip} stock=${stock} />
  </section>`;
}
