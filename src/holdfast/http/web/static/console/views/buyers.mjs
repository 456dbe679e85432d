import { get, may } from "../api.mjs";
import { html, useEffect, useState } from "../html.mjs";
import { Empty, Field, Heading, Tag } from "../components.mjs";
import { dateTime, number, OUTCOMES, plural, price } from "../format.mjs";
import { Revoking } from "./revoking.mjs";
import * as paths from "../../paths.mjs";

const KINDS = { refused: "bad", "reservation.confirmed": "good", "order.confirmed": "good", "reservation.failed": "bad", "reservation.expired": "warn", "room.called": "good", "room.pass_given": "good", "room.pass_expired": "warn", "room.left": "warn" };

export function BuyerView({ id }) {
  const [text, setText] = useState(id || "");
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (id) lookUp(id).then(setFound, (problem) => setError(problem.message));
  }, [id]);
  const submit = (event) => {
    event.preventDefault();
    const target = `#/buyers/${encodeURIComponent(text.trim())}`;
    if (text.trim() && location.hash !== target) location.hash = target;
    else if (id) lookUp(id).then(setFound, (problem) => setError(problem.message));
  };
  return html`<${Heading} title=${id ? `Buyer ${id}` : "Buyers"}><//>
    <form class="inline search" onSubmit=${submit}>
      <${Field} name="buyer" label="Buyer ID" value=${text} autocomplete="off" spellcheck="false" hint="The sub claim of the buyer's token." onInput=${(event) => setText(event.target.value)} />
      <button class="button main">Look up</button>
    </form>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${id && html`<${Revoking} id=${id} />`}
    ${found && html`<${BuyerHistory} ...${found} />`}`;
}

async function lookUp(id) {
  const named = encodeURIComponent(id);
  const [timeline, orders] = await Promise.all([
    get(`${paths.getAudit()}?buyer_id=${named}&limit=500`),
    may("sales") || may("read") ? get(`${paths.listOrders()}?buyer_id=${named}&limit=100`) : { data: [] },
  ]);
  if (timeline.disabled) throw new Error("The audit is turned off while the server is short of CPU or memory. Try again in a minute.");
  return { timeline, orders: orders.data };
}

function BuyerHistory({ timeline, orders }) {
  const refusals = Object.entries(timeline.refusals);
  const shed = Object.entries(timeline.shed);
  return html`${timeline.data.length > 0 && html`<p class="verdict"><b>${timeline.summary}</b></p>`}${orders.length > 0 && html`<section><h2 class="section-title">${plural(orders.length, "order")}</h2><ul class="stack">${orders.map((order) => html`<li key=${order.order_id} class="card order">
      <a class="code whole-row" href="#/orders/${encodeURIComponent(order.order_id)}">${order.number}</a><span>${number(order.quantity)} × from <a href="#/sale/${encodeURIComponent(order.sale_id)}">${order.sale_id}</a></span>
      <b>${price(order)}</b><${Tag} kind=${order.status === "confirmed" ? "good" : "warn"}>${order.status}<//><span class="quiet">${dateTime(order.created_at)}</span></li>`)}</ul></section>`}
    <section><h2 class="section-title">Timeline</h2>
      ${refusals.length > 0 && html`<p class="quiet">Refused: ${refusals.map(([reason, count]) => `${OUTCOMES[reason] || reason} ${number(count)}×`).join(", ")}</p>`}
      ${shed.length > 0 && html`<p class="quiet">Turned away in this time, of all buyers: ${shed.map(([reason, count]) => `${OUTCOMES[reason] || reason} ${number(count)}×`).join(", ")}</p>`}
      ${timeline.data.length === 0 && html`<${Empty}>No activity found for this buyer.<//>`}
      <ol class="timeline">${timeline.data.map((one, index) => html`<li key=${index} class="is-${KINDS[one.type] || "plain"}">
        <time>${dateTime(one.at)}</time><span class="what">${one.what}</span><span class="quiet code">${one.sale_id || one.sku_id}${one.reservation_id ? ` · ${one.reservation_id}` : ""}</span></li>`)}</ol>
      ${timeline.unreadable_segments.length > 0 && html`<p class="error">Some audit segments could not be read: ${timeline.unreadable_segments.join(", ")}</p>`}
    </section>`;
}
