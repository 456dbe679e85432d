import { get, may } from "../api.mjs";
import { html, useState } from "../html.mjs";
import { Empty, Heading, Tag } from "../components.mjs";
import { useEvery } from "../store.mjs";
import { dateTime, number, PHASES, price, share } from "../format.mjs";
import { StockStrip } from "./stock.mjs";
import * as paths from "../../paths.mjs";

const ORDER = ["open", "all_held", "paused", "upcoming", "sold_out", "ended"];

export function SalesView() {
  const [page, setPage] = useState(null);
  useEvery(2000, async () => setPage(await get(`${paths.listSales()}?limit=100`).catch(() => page)));
  const sales = page && [...page.data].sort((one, other) => rank(one) - rank(other) || other.starts_at.localeCompare(one.starts_at));
  return html`<${Heading} title="Sales">${may("sales") && html`<a class="button main" href="#/sales/new">New sale</a>`}<//>
    ${sales && sales.length === 0 && html`<${Empty}>No sales yet.<//>`}
    ${sales && sales.length > 0 && html`<ul class="sale-list">${sales.map((sale) => html`<${SaleRow} key=${sale.sale_id} sale=${sale} />`)}</ul>`}
    ${page?.has_more && html`<p class="hint">Only the first 100 sales by ID are shown. Use the API for the others.</p>`}`;
}

const rank = (sale) => ORDER.indexOf(sale.phase);

function SaleRow({ sale }) {
  const [phase, kind] = PHASES[sale.phase];
  const known = sale.total_units !== null;
  return html`<li class="sale-row card">
    <div class="sale-what">
      <h2><a href="#/sale/${encodeURIComponent(sale.sale_id)}">${sale.name}</a></h2>
      <p class="quiet"><span class="code">${sale.sale_id}</span> · ${price(sale.price)} · starts ${dateTime(sale.starts_at)}</p>
      ${sale.problem && html`<p class="error">${sale.problem}</p>`}
    </div>
    <${Tag} kind=${kind}>${phase}<//>
    <div class="sale-stock figures">
      <${StockStrip} stock=${{ available: sale.available, held: sale.held, settling: 0, sold: sale.sold }} />
      <p class="quiet">${known ? html`<b>${number(sale.sold)}</b> of ${number(sale.total_units)} sold${sale.total_units ? ` (${share(sale.sold, sale.total_units)})` : ""} · ${number(sale.held)} held · ${number(sale.available)} available` : "Stock unavailable right now"}</p>
    </div>
  </li>`;
}
