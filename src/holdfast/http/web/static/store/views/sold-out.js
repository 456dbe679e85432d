/** Sold out: how many went how soon, how many wanted one, the buyer's place against the last one that bought, and what next. */
import { duration, number } from "../format.js";
import { html } from "../html.js";
import { Fact } from "./fact.js";
import { TellMe } from "./tell-me.js";

export function SoldOut(page) {
  return html`
    ${page.now?.sold_out && html`<${Story} ...${page} />`}
    <${TellMe} ...${page} purpose="next" />
  `;
}

function Story({ now, sale, position, t, language }) {
  const { units, seconds, last_position: last } = now.sold_out;
  // The line of a drop serves other sales, too.
  const hasLine = sale.room.mode !== "off" && !sale.drop_id && now.joined > 0;
  const missed = position && last ? position - last : 0;
  return html`
    <p class="ahead"><b class="figures">${number(units, language)}</b> <span>${t.sold.within(units, duration(seconds, language))}</span></p>
    ${hasLine &&
    html`<dl class="facts story figures">
      <${Fact} name=${t.sold.joined} value=${number(now.joined, language)} />
      ${last && html`<${Fact} name=${t.sold.lastPlace} value=${number(last, language)} />`}
      ${position && html`<${Fact} name=${t.waiting.place} value=${number(position, language)} />`}
    </dl>`}
    ${missed > 0 && html`<p>${t.sold.missed(missed, number(missed, language))}</p>`}
  `;
}
