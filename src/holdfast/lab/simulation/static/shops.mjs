// The simple shops' sales to the same buyers.

import { html } from "../console/html.mjs";
import { count, plural } from "./format.mjs";

function Bar({ sold, units, most }) {
  const part = (value) => `${(100 * value) / most}%`;
  return html`
    <div class="bar" aria-hidden="true">
      <i class="within" style=${{ width: part(Math.min(sold, units)) }}></i>
      <i class="beyond" style=${{ width: part(Math.max(0, sold - units)) }}></i>
      <b style=${{ left: part(units) }}></b>
    </div>`;
}

function Row({ name, title, about, code, sold, oversold, twice, errors, units, most, left, isOurs = false }) {
  return html`
    <li class="shop ${isOurs ? "ours" : ""}" data-shop=${name}>
      <div class="shop-about"><h3>${title}</h3><p>${about}</p>${code && html`<p class="code">${code}</p>`}</div>
      <div class="shop-sold">
        <p class="value figures"><b>${count(sold)}</b> <span>sold of ${count(units)}</span></p>
        <${Bar} sold=${sold} units=${units} most=${most} />
        <p class="tags">
          ${oversold > 0 && html`<span class="tag bad" data-oversold=${oversold}>${count(oversold)} oversold</span>`}
          ${twice > 0 && html`<span class="tag bad">${plural(twice, "buyer", "buyers")} charged more than once</span>`}
          ${errors > 0 && html`<span class="tag warn">${isOurs ? `${plural(errors, "click", "clicks")} repeated` : plural(errors, "error page", "error pages")}</span>`}
          ${left > 0 && html`<span class="tag warn">${plural(left, "unit", "units")} lost</span>`}
          ${oversold === 0 && twice === 0 && sold > 0 && html`<span class="tag good">No unit too many</span>`}
        </p>
      </div>
    </li>`;
}

export function Shops({ setup, snapshot }) {
  const { shops, options, ledger, clicks, phase } = snapshot;
  const most = Math.max(options.units * 1.25, ledger.orders, ...shops.map((shop) => shop.sold));
  // After the run: units left unsold although buyers wanted them.
  const leftOf = (sold) => (phase === "done" ? Math.min(options.units, options.users) - sold : 0);
  const ours = {
    name: "holdfast",
    title: "Holdfast",
    about: "One batch, one decision, one commit; one order per idempotency key.",
    sold: ledger.orders,
    oversold: Math.max(0, ledger.orders - options.units),
    twice: ledger.twice,
    errors: clicks.retried,
  };
  return html`
    <section class="shops" aria-labelledby="shops-title">
      <h2 id="shops-title">The same crowd, five shops</h2>
      <p class="quiet">
        The simple shops are real, too: SQL in SQLite files, ${setup.has_valkey ? "counters in a Redis without persistence, as caches usually run" : "and, where a Redis is installed, counters in it"}.
        They get the same arrivals and the same double clicks, and their buyers click again after an error. They know no idempotency key.
      </p>
      <ol>
        <${Row} ...${ours} units=${options.units} most=${most} left=${leftOf(ledger.orders)} isOurs />
        ${shops.map((shop) => html`<${Row} key=${shop.name} ...${shop} units=${options.units} most=${most} left=${leftOf(shop.sold)} />`)}
      </ol>
      ${!setup.has_valkey && html`<p class="quiet">Two more shops need a Redis: pip install 'holdfast[bench]'.</p>`}
    </section>`;
}
