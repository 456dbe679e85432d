// The conservation law, drawn: every unit is in exactly one of four places.
import { html } from "../html.mjs";
import { number, share } from "../words.mjs";

const PLACES = [["available", "Available"], ["held", "In carts"], ["settling", "Paying"], ["sold", "Sold"]];

export function StockStrip({ stock }) {
  return html`<div class="strip" aria-hidden="true">${PLACES.filter(([place]) => stock[place]).map(([place]) => html`<span key=${place} class="at-${place}" style=${{ flexGrow: stock[place] }}></span>`)}</div>`;
}

export function StockBar({ stock }) {
  const sum = PLACES.reduce((all, [place]) => all + stock[place], 0);
  return html`<section class="stock figures" aria-label="Where the units are">
    <dl>${PLACES.map(([place, label]) => html`<div key=${place} class="stock-figure at-${place}">
      <dt>${label}</dt><dd><b>${number(stock[place])}</b> <span>${share(stock[place], stock.total)}</span></dd></div>`)}
      <div class="stock-figure at-all"><dt>All units</dt><dd><b>${number(stock.total)}</b> <span>${sum === stock.total ? "adds up" : "does not add up"}</span></dd></div>
    </dl>
    <${StockStrip} stock=${stock} />
  </section>`;
}
