// The stages of a click: gate, settlement queue, ledger.

import { html } from "../console/html.mjs";
import { count, isSelling, milliseconds, usesRedis } from "./format.mjs";

function Stage({ name, title, value, unit, state, children }) {
  return html`
    <li class="stage" data-stage=${name}>
      <div class="stage-head"><h3>${title}</h3>${state}</div>
      <p class="value figures"><b>${count(value)}</b> <span>${unit}</span></p>
      ${children}
    </li>`;
}

const down = (isDown, text) => isDown && html`<span class="tag bad">${text}</span>`;

function Fact({ label, value }) {
  return html`<div><dt>${label}</dt><dd class="figures">${value}</dd></div>`;
}

function StockBar({ gate, units }) {
  const part = (value) => `${(100 * value) / Math.max(1, units)}%`;
  return html`
    <div class="stock-bar" role="img"
      aria-label="${count(gate.available)} free, ${count(gate.held)} held, ${count(gate.sold)} sold of ${count(units)}">
      <i class="sold" style=${{ width: part(gate.sold) }}></i>
      <i class="held" style=${{ width: part(gate.held) }}></i>
      <i class="available" style=${{ width: part(gate.available) }}></i>
    </div>`;
}

export function Stages({ snapshot }) {
  const { clicks, gate, ledger, options } = snapshot;
  const selling = isSelling(snapshot);
  const taken = gate.held + gate.sold;
  const journal = usesRedis(snapshot) ? "Redis, in batches" : "SQLite, in batches";
  return html`
    <section class="pipeline" aria-labelledby="stages-title">
      <h2 id="stages-title" class="visually-hidden">Holdfast, stage by stage</h2>
      <ol class="stages">
        <${Stage} name="clicks" title="Clicks" value=${clicks.sent} unit="sent"
          state=${clicks.waiting > 0 && html`<span class="tag">${count(clicks.waiting)} waiting</span>`}>
          <p>${count(clicks.arrived)} of ${count(options.users)} buyers have come. An error or no answer: they click again, with the same key.</p>
          <dl>
            <${Fact} label="Repeated after an error" value=${count(clicks.retried)} />
            <${Fact} label="Answer, median" value=${milliseconds(clicks.p50_ms)} />
            <${Fact} label="Answer, 99 %" value=${milliseconds(clicks.p99_ms)} />
          </dl>
        <//>
        <${Stage} name="gate" title="Gate" value=${taken} unit="of ${count(options.units)} promised" state=${down(selling && !gate.is_up, "no answer")}>
          <${StockBar} gate=${gate} units=${options.units} />
          <p>${journal}, decides who gets a unit. “Yes” is said once it is on disk.</p>
          <dl>
            <${Fact} label="Buyers told yes" value=${count(clicks.reserved)} />
            <${Fact} label="Told “sold out”" value=${count(clicks.refused)} />
            <${Fact} label="Same answer repeated" value=${count(clicks.replayed)} />
          </dl>
        <//>
        <${Stage} name="queue" title="Settlement queue" value=${snapshot.queue} unit="waiting for payment"
          state=${selling && snapshot.queue > 0 && html`<span class="tag">working</span>`}>
          <p>Promised, not yet paid. A card payment takes 150 ms here. During a fault the queue grows; afterwards it empties. Nothing is dropped.</p>
        <//>
        <${Stage} name="ledger" title="Ledger" value=${ledger.orders} unit="of ${count(options.units)} sold" state=${down(selling && !ledger.is_up, "no answer")}>
          <p>Paid orders, counted in the ${usesRedis(snapshot) ? "PostgreSQL database" : "SQLite file"} itself. Never more than there are units.</p>
          <dl>
            <${Fact} label="Oversold" value=${count(Math.max(0, ledger.orders - options.units))} />
          </dl>
        <//>
      </ol>
    </section>`;
}
