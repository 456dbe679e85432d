import { get, may } from "../api.mjs";
import { html, useEffect, useState } from "../html.mjs";
import { Empty, Field, Heading, Tag } from "../parts.mjs";
import { moment, number, OUTCOMES, plural, price } from "../words.mjs";

const KINDS = { refused: "bad", "reservation.confirmed": "good", "order.confirmed": "good", "reservation.failed": "bad", "reservation.expired": "warn" };

export function BuyerView({ id }) {
  const [given, setGiven] = useState(id || "");
  const [found, setFound] = useState(null);
  const [wrong, setWrong] = useState(null);
  useEffect(() => {
    if (id) look(id).then(setFound, (problem) => setWrong(problem.message));
  }, [id]);
  const submit = (event) => {
    event.preventDefault();
    const wanted = `#/buyers/${encodeURIComponent(given.trim())}`;
    if (given.trim() && location.hash !== wanted) location.hash = wanted;
    else if (id) look(id).then(setFound, (problem) => setWrong(problem.message));
  };
  return html`<${Heading} title=${id ? `Buyer ${id}` : "Buyers"}><//>
    <form class="inline search" onSubmit=${submit}>
      <${Field} name="buyer" label="Buyer's id" value=${given} autocomplete="off" spellcheck="false" hint="As your login knows them: the token's sub." onInput=${(event) => setGiven(event.target.value)} />
      <button class="button main">Look up</button>
    </form>
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
    ${found && html`<${Story} ...${found} />`}`;
}

async function look(id) {
  const named = encodeURIComponent(id);
  const [timeline, orders] = await Promise.all([
    get(`/v1/ops/audit?buyer_id=${named}&limit=500`),
    may("sales") ? get(`/v1/orders?buyer_id=${named}&limit=100`) : { data: [] },
  ]);
  return { timeline, orders: orders.data };
}

function Story({ timeline, orders }) {
  const refusals = Object.entries(timeline.refusals);
  return html`${orders.length > 0 && html`<section><h2 class="part">${plural(orders.length, "order")}</h2><ul class="stack">${orders.map((order) => html`<li key=${order.order_id} class="card order">
      <span class="code">${order.order_id}</span><span>${number(order.quantity)} × from <a href="#/sale/${encodeURIComponent(order.sale_id)}">${order.sale_id}</a></span>
      <b>${price(order)}</b><${Tag} kind=${order.status === "confirmed" ? "good" : "warn"}>${order.status}<//><span class="quiet">${moment(order.created_at)}</span></li>`)}</ul></section>`}
    <section><h2 class="part">What happened</h2>
      ${refusals.length > 0 && html`<p class="quiet">Refused: ${refusals.map(([reason, count]) => `${OUTCOMES[reason] || reason} ${number(count)}×`).join(", ")}</p>`}
      ${timeline.data.length === 0 && html`<${Empty}>Nothing is known of this buyer.<//>`}
      <ol class="timeline">${timeline.data.map((one, index) => html`<li key=${index} class="is-${KINDS[one.type] || "plain"}">
        <time>${moment(one.at)}</time><span class="what">${one.what}</span><span class="quiet code">${one.sale_id || one.sku_id}${one.reservation_id ? ` · ${one.reservation_id}` : ""}</span></li>`)}</ol>
      ${timeline.unreadable_segments.length > 0 && html`<p class="wrong">Parts of the audit could not be read: ${timeline.unreadable_segments.join(", ")}</p>`}
    </section>`;
}
